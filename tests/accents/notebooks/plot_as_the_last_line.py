import pandas as pd

frame = pd.DataFrame(get_users())
frame.groupby("team").size().plot(kind="bar")

# expect value: 'image/png'
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
# limits: monty
