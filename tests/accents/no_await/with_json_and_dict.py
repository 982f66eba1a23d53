import json

report = {"users": get_users(), "price": price("A")}
text = json.dumps(report, sort_keys=True)
print(json.loads(text)["users"][1]["name"], json.dumps(price("B")))
json.loads(json_report())["rows"]

# expect stdout:
# | Bo {"ticker": "B", "price": 20}
# expect value: [1, 2]
# expect calls: 4
