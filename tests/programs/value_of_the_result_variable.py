users = await get_users()
result = [user["id"] for user in users]

# expect value: ['u1', 'u2', 'u3']
# expect calls: 1
