for user in await get_users():
    if user["team"] == "web":
        return user["name"]

# expect value: 'Bo'
# expect calls: 1
