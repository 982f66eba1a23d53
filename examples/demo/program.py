teams = ["sales", "engineering", "support", "research"]
quarter = 3

budgets = await asyncio.gather(*[get_budget(team=team, quarter=quarter) for team in teams])
people = await asyncio.gather(*[list_people(team=team) for team in teams])
everyone = [person for team in people for person in team]
expenses = await asyncio.gather(*[get_expenses(person_id=p["id"], quarter=quarter) for p in everyone])

spent = {team: 0 for team in teams}
for person, rows in zip(everyone, expenses):
    spent[person["team"]] += sum(row["amount"] for row in rows)

for budget in budgets:
    team = budget["team"]
    state = "OVER" if spent[team] > budget["amount"] else "ok"
    print(f"{team:<12} spent {spent[team]:>9.2f} of {budget['amount']:>6}  {state}")
