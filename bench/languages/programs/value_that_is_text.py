", ".join(user["name"] for user in await get_users())

# topic: output
# expect value: 'Ada, Bo, Cy'
