import json

rows = json.loads(await get_expenses("u1"))
print(len(rows))

# expect stdout:
# | 2
# expect calls: 1
