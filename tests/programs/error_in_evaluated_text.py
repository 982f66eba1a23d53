eval("1 = = 2")

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     eval("1 = = 2")
# |   File "<string>", line 1
# |     1 = = 2
# |       ^
# | SyntaxError: invalid syntax
# limits: monty
