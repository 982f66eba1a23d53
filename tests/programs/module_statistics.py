import statistics

print(statistics.mean([1, 2, 3]), statistics.median([3, 1, 2]))

# expect stdout:
# | 2 2
# limits: monty
