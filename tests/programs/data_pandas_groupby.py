import pandas as pd

users = pd.DataFrame(await get_users())
print(users.groupby("team").size().to_dict())
users[["id", "team"]]

# expect stdout:
# | {'core': 2, 'web': 1}
# expect value: [{'id': 'u1', 'team': 'core'}, {'id': 'u2', 'team': 'web'}, {'id': 'u3', 'team': 'core'}]
# expect calls: 1
# limits: monty
