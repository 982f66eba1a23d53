import json

report = json.loads(await json_report())
print(report["rows"])

# expect stdout:
# | [1, 2]
# expect calls: 1
