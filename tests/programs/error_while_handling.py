try:
    {}["a"]
except KeyError:
    1 / 0

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 2, in __main__
# |     {}["a"]
# | KeyError: 'a'
# |
# | During handling of the above exception, another exception occurred:
# |
# | Traceback (most recent call last):
# |   File "<program>", line 4, in __main__
# |     1 / 0
# | ZeroDivisionError: division by zero
# limits: monty
