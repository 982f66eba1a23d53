values = {"a": 1, "b": 2}
del values["a"]
print(values)

# expect stdout:
# | {'b': 2}
