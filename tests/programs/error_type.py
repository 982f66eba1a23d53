len(5)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     len(5)
# | TypeError: object of type 'int' has no len()
