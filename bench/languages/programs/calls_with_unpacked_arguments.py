arguments = {"a": 20, "b": 22}
await add(**arguments)

# topic: calls
# expect value: 42
