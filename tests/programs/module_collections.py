from collections import Counter, defaultdict

teams = defaultdict(list)
for user in await get_users():
    teams[user["team"]].append(user["name"])
print(dict(teams), Counter("abca").most_common(1))

# expect stdout:
# | {'core': ['Ada', 'Cy'], 'web': ['Bo']} [('a', 2)]
# expect calls: 1
