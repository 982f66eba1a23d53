raise ValueError("first: line\nsecond: line\n\n  last line")

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     raise ValueError("first: line\nsecond: line\n\n  last line")
# | ValueError: first: line
# | second: line
# |
# |   last line
# expect message:
# | ValueError: first: line
# | second: line
# |
# |   last line
