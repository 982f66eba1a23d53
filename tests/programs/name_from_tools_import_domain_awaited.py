from tools import finance as money
from tools import hr

users = await hr.get_users()
print(len(users), len(await money.get_expenses(users[0]["id"])))

# expect stdout:
# | 3 2
# expect calls: 2
