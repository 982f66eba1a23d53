users = await get_users()
return len(users)

# expect value: 3
# expect calls: 1
