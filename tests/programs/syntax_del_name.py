rows = await get_users()
del rows
try:
    rows
except NameError as error:
    print(error)

# expect stdout:
# | name 'rows' is not defined
# expect calls: 1
# limits: monty
