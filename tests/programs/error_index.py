users = await get_users()
users[10]

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 2, in __main__
# |     users[10]
# | IndexError: list index out of range
# expect calls: 1
