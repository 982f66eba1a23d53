text = """
one
two
"""

int(text)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 6, in __main__
# |     int(text)
# | ValueError: invalid literal for int() with base 10: '\none\ntwo\n'
