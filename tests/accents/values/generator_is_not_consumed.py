numbers = (n for n in range(3))
{"lazy": numbers, "squares": map(str, numbers)}

# expect value: {"lazy": "<generator object <genexpr>>", "squares": "<map object>"}
# expect hints:
# | value['lazy'] is a 'generator', which has no JSON form; its text was sent
# | value['squares'] is a 'map', which has no JSON form; its text was sent
# limits: monty
