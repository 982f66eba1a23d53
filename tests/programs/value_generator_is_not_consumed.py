numbers = (n for n in range(3))
{"lazy": numbers, "squares": map(str, numbers)}

# expect value: {"lazy": "<generator object <genexpr>>", "squares": "<map object>"}
# limits: monty
