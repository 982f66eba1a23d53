pair = ["u1", 4]
named = {"user_id": "u3"}
first = await get_expenses(*pair)
second = await get_expenses(**named)
[first[0], second[0]]

# expect value: [{'user': 'u1', 'amount': 40}, {'user': 'u3', 'amount': 10}]
# expect calls: 2
