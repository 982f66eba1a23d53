import json

json.loads("{bad")

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 3, in __main__
# |     json.loads("{bad")
# | json.decoder.JSONDecodeError: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
