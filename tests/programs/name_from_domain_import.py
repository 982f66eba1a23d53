from tools.hr import get_users
from tools.finance import get_expenses

for user in await get_users():
    print(user["id"], (await get_expenses(user["id"]))[0]["amount"])

# expect stdout:
# | u1 10
# | u2 10
# | u3 10
# expect calls: 4
