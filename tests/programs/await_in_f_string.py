print(f"A costs {(await price('A'))['price']}")

# expect stdout:
# | A costs 10
# expect calls: 1
