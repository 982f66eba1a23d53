import tools.hr as hr

users = hr.get_users()
print(users[0]["name"])

# expect stdout:
# | Ada
# expect calls: 1
