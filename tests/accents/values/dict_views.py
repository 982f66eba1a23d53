[{"a": 1}.keys(), {"a": 1}.values()]

# expect value: [['a'], [1]]
# limits: monty
