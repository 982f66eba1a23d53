name = "Ada"
print(f"""Dear {name},

    the sum is {await add(1, 2)}.
""")

# expect stdout:
# | Dear Ada,
# |
# |     the sum is 3.
# |
# expect calls: 1
