import re

users = await get_users()
print([re.sub(r"^(\w)(\w*)$", r"\2_\1", user["name"]) for user in users])

# expect stdout:
# | ['da_A', 'o_B', 'y_C']
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
