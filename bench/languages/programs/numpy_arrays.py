import numpy as np

amounts = np.array([order["amount"] for order in await get_orders(user_id="u1")], dtype=float)
[float(amounts.mean()), np.round(np.percentile(amounts, 50), 2).item(), (amounts > 10).tolist(), np.arange(6).reshape(2, 3).sum(axis=0).tolist()]

# topic: data
# expect value: [15.666666666666666, 12.0, [False, True, True], [3, 5, 7]]
