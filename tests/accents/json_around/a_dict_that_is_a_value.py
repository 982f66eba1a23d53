{'code': 7, 'users': len(await get_users())}

# expect value: {'code': 7, 'users': 3}
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
