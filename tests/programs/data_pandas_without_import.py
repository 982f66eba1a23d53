frame = pd.DataFrame({"a": [1, 2], "b": [0.5, None]})
frame

# expect value: [{'a': 1, 'b': 0.5}, {'a': 2, 'b': None}]
# limits: monty
