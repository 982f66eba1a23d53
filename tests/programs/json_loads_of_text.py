import json

print(json.loads('{"a": [1, 2]}')["a"])

# expect stdout:
# | [1, 2]
