import pandas as pd

frame = pd.DataFrame(get_users())
display(frame)
frame.head(2)

# expect stdout:
# |    id name  team
# | 0  u1  Ada  core
# | 1  u2   Bo   web
# | 2  u3   Cy  core
# expect value: [{'id': 'u1', 'name': 'Ada', 'team': 'core'}, {'id': 'u2', 'name': 'Bo', 'team': 'web'}]
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
# limits: monty
