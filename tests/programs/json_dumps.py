import json

print(json.dumps({"a": None, "b": [True, 1.5]}, indent=2))

# expect stdout:
# | {
# |   "a": null,
# |   "b": [
# |     true,
# |     1.5
# |   ]
# | }
