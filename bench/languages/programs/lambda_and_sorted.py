users = await get_users()
[user["name"] for user in sorted(users, key=lambda user: (user["team"], user["name"]), reverse=True)]

# topic: functions
# expect value: ['Bo', 'Cy', 'Ada']
