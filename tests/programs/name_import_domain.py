import tools.finance

rows = tools.finance.get_expenses("u1", 2)
print(rows[0]["amount"])

# expect stdout:
# | 20
# expect calls: 1
