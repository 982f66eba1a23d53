arguments = {"user_id": "u1"}
rows = await get_expenses(arguments)
print(rows[0]["amount"])

# expect stdout:
# | 10
# expect calls: 1
