def names(rows: List[Dict[str, Any]]) -> Optional[List[str]]:
    return [row["name"] for row in rows] or None


display(names(get_users()), {"a": 1})
print(datetime.now() > datetime(2020, 1, 2), datetime.timedelta(days=1).days, datetime.strptime("2026", "%Y").year)
print(__file__.rpartition("/")[2])

# expect stdout:
# | ['Ada', 'Bo', 'Cy']
# | {'a': 1}
# | True 1 2026
# | program.py
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'get_users' would do
# limits: monty
