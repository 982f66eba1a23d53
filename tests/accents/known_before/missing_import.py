users = await get_users()
print(Counter(user["team"] for user in users))

# expect rejected: line 2: 'Counter' is not defined; add 'from collections import Counter'
