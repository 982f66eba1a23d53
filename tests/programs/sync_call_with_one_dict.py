tools.get_expenses({"user_id": "u1", "quarter": 5})

# expect value: [{'user': 'u1', 'amount': 50}, {'user': 'u1', 'amount': 5}]
# expect calls: 1
