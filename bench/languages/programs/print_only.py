users = await get_users()
for user in users:
    print(user["name"], "in", user["team"])

# topic: output
# expect stdout:
# | Ada in core
# | Bo in web
# | Cy in core
