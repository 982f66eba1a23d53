raise ValueError("a", 2)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     raise ValueError("a", 2)
# | ValueError: ('a', 2)
# limits: monty
