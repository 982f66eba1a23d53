for value in [None, True, 3, 2.5, "text", [1], {"a": {"b": []}}]:
    reply = await echo(value)
    print(type(reply).__name__, reply)

# expect stdout:
# | NoneType None
# | bool True
# | int 3
# | float 2.5
# | str text
# | list [1]
# | dict {'a': {'b': []}}
# expect calls: 7
