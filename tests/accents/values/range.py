[range(3)]

# expect value: [[0, 1, 2]]
# limits: monty
