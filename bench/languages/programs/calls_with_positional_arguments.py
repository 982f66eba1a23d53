total = await add(1, 2)
rows = await get_orders("u1")
[total, len(rows)]

# topic: calls
# expect value: [3, 3]
