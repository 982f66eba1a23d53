from json import dumps, loads

print(loads(dumps({"b": 1})), loads(await price("C"))["price"])

# expect stdout:
# | {'b': 1} 30
# expect calls: 1
