assert 1 > 2

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 1, in __main__
# |     assert 1 > 2
# | AssertionError
