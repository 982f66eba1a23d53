def load(text):
    try:
        return int(text)
    except ValueError as error:
        raise RuntimeError("cannot load") from error


load("x")

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 3, in load
# |     return int(text)
# | ValueError: invalid literal for int() with base 10: 'x'
# |
# | The above exception was the direct cause of the following exception:
# |
# | Traceback (most recent call last):
# |   File "<program>", line 8, in __main__
# |     load("x")
# |   File "<program>", line 5, in load
# |     raise RuntimeError("cannot load") from error
# | RuntimeError: cannot load
# limits: monty
