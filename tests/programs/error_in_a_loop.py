rows = [{"n": 1}, {}]
total = 0
for row in rows:
    total += row["n"]

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 4, in __main__
# |     total += row["n"]
# | KeyError: 'n'
