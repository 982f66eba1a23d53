row = await price("A")

print(row["cost"])

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 3, in __main__
# |     print(row["cost"])
# | KeyError: 'cost'
# expect calls: 1
