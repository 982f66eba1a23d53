await get_expenses("u2", 3)

# expect value: [{'user': 'u2', 'amount': 30}, {'user': 'u2', 'amount': 5}]
# expect calls: 1
