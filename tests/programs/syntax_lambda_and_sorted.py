users = await get_users()
print([user["name"] for user in sorted(users, key=lambda user: user["name"], reverse=True)])

# expect stdout:
# | ['Cy', 'Bo', 'Ada']
# expect calls: 1
