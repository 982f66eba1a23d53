users = await get_users()
by_team = {team: [user["name"] for user in users if user["team"] == team] for team in sorted({user["team"] for user in users})}
[by_team, [[row * column for column in range(3)] for row in range(3)]]

# topic: syntax
# expect value: [{'core': ['Ada', 'Cy'], 'web': ['Bo']}, [[0, 0, 0], [0, 1, 2], [0, 2, 4]]]
