if len([]) > 0:
    late = 1
print(late)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 3, in __main__
# |     print(late)
# | NameError: name 'late' is not defined
