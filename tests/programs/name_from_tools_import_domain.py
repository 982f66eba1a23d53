from tools import hr

users = hr.get_users()
len(users)

# expect value: 3
# expect calls: 1
