users = get_users()
len(users)

teams = {user["team"] for user in users}
sorted(teams)

# expect value: ['core', 'web']
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
