import numpy as np

costs = np.array([row["amount"] for row in await get_expenses("u1", 3)])
print(costs.mean())
[costs, costs.sum(), np.float64("nan")]

# expect stdout:
# | 17.5
# expect value: [[30, 5], 35, None]
# expect calls: 1
# limits: monty
