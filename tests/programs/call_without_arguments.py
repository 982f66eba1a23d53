users = await get_users()
[user["name"] for user in users]

# expect value: ['Ada', 'Bo', 'Cy']
# expect calls: 1
