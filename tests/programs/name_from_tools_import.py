from tools import get_users

print(len(await get_users()))

# expect stdout:
# | 3
# expect calls: 1
