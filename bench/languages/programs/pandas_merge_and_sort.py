import pandas as pd

users = pd.DataFrame(await get_users())
prices = pd.DataFrame({"team": ["core", "web"], "budget": [100, 50]})
merged = users.merge(prices, on="team").sort_values(["budget", "name"], ascending=[True, False])
merged["name"].tolist()

# topic: data
# expect value: ['Bo', 'Cy', 'Ada']
