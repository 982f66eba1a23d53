await get_expenses(user_id="u2", quarter=3)

# expect value: [{'user': 'u2', 'amount': 30}, {'user': 'u2', 'amount': 5}]
# expect calls: 1
