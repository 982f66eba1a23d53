for n in range(1, 3):
    print((await translate(f"hello {n}", count=f"{n}"))["count"])

# expect stdout:
# | 1
# | 2
# expect calls: 2
