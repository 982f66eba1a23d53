names = []
for user in await get_users():
    names.push(user["name"])
print(names.length)

# expect rejected: line 3: 'names' is a list, which has no attribute 'push'; write names.append(...)
