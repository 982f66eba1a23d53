from collections import Counter, defaultdict

users = await get_users()
teams = Counter(user["team"] for user in users)
names = defaultdict(list)
for user in users:
    names[user["team"]].append(user["name"])
[teams.most_common(1), dict(names)]

# topic: modules
# expect value: [[['core', 2]], {'core': ['Ada', 'Cy'], 'web': ['Bo']}]
