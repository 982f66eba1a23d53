from tools import price as quote
from tools.hr import get_users

print(quote("A")["price"], [user["name"] for user in get_users()])

# expect stdout:
# | 10 ['Ada', 'Bo', 'Cy']
# expect calls: 2
