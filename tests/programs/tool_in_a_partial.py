from functools import partial

second = partial(get_expenses, quarter=2)
rows = await second("u1")
rows[0]["amount"]

# expect value: 20
# expect calls: 1
