from itertools import accumulate, chain, groupby, islice, pairwise

users = sorted(await get_users(), key=lambda user: user["team"])
groups = {team: [user["name"] for user in group] for team, group in groupby(users, key=lambda user: user["team"])}
[groups, list(chain([1], [2, 3])), list(accumulate([1, 2, 3])), list(islice(range(100), 3)), [list(pair) for pair in pairwise("abc")]]

# topic: modules
# expect value: [{'core': ['Ada', 'Cy'], 'web': ['Bo']}, [1, 2, 3], [1, 3, 6], [0, 1, 2], [['a', 'b'], ['b', 'c']]]
