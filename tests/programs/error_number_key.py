{}[7]

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     {}[7]
# | KeyError: 7
# limits: monty
