teams = ["sales", "engineering", "support", "research"]

budgets = await asyncio.gather(*[get_budget(t, quarter=3) for t in teams])
people = await asyncio.gather(*[list_people(t) for t in teams])
everyone = [person for team in people for person in team]
ids = [person["id"] for person in everyone]
expenses = await asyncio.gather(*[get_expenses(i, quarter=3) for i in ids])

spent = dict.fromkeys(teams, 0)
for person, rows in zip(everyone, expenses):
    spent[person["team"]] += sum(row["amount"] for row in rows)

for budget in budgets:
    team, most = budget["team"], budget["amount"]
    state = "OVER" if spent[team] > most else "ok"
    print(f"{team:<12} spent {spent[team]:>9.2f} of {most:>6}  {state}")
