print(any(tools.add(n, 0) == 1 for n in range(5)))

# expect stdout:
# | True
# expect calls: 2
# limits: monty
