print(undefined_thing)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     print(undefined_thing)
# | NameError: name 'undefined_thing' is not defined
