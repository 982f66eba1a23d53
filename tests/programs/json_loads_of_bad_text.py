import json

try:
    json.loads("{no")
except ValueError as error:
    print(error)

# expect stdout:
# | Expecting property name enclosed in double quotes: line 1 column 2 (char 1)
