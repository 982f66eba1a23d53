def label(user):
    return user["name"]


users = await get_users()
print(label(users[0], "core"))

# expect rejected: line 6: 'label' takes 'user'; got 2 positional arguments
