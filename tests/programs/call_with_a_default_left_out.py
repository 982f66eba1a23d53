rows = await get_expenses("u1")
rows[0]["amount"]

# expect value: 10
# expect calls: 1
