found = next((user for user in await get_users() if user["team"] == "web"), None)
print(found["name"])

# expect stdout:
# | Bo
# expect calls: 1
