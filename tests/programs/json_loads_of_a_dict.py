import json

row = json.loads(await price("A"))
print(row["price"])

# expect stdout:
# | 10
# expect calls: 1
