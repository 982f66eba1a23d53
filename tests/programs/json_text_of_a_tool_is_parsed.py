report = await json_report()
print(report["rows"][1])

# expect stdout:
# | 2
# expect calls: 1
