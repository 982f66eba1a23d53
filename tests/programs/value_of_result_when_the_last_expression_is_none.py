result = {"sum": await add(4, 5)}
print(result["sum"])

# expect stdout:
# | 9
# expect value: {'sum': 9}
# expect calls: 1
