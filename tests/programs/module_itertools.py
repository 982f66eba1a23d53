from itertools import chain, groupby, islice

users = sorted(await get_users(), key=lambda user: user["team"])
print([(team, len(list(rows))) for team, rows in groupby(users, key=lambda user: user["team"])])
print(list(islice(chain([1, 2], [3, 4]), 3)))

# expect stdout:
# | [('core', 2), ('web', 1)]
# | [1, 2, 3]
# expect calls: 1
