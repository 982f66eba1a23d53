try:
    int("x")
except ValueError:
    print("seen")
    raise

# expect stdout:
# | seen
# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 2, in __main__
# |     int("x")
# | ValueError: invalid literal for int() with base 10: 'x'
# limits: monty
