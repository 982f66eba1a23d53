users = await get_users()
if users != null:
    print(users)

# expect rejected: line 2: 'null' is not defined; write None
