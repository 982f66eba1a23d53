error = KeyError("price")
error.add_note("hint: the field is called cost")
raise error

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 3, in __main__
# |     raise error
# | KeyError: 'price'
# | hint: the field is called cost
# expect message:
# | KeyError: 'price'
# | hint: the field is called cost
# limits: monty
