users = await get_users()
print("found", len(users))
len(users)

# topic: output
# expect stdout:
# | found 3
# expect value: 3
