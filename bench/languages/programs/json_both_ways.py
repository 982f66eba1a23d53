import json

text = json.dumps({"users": await get_users()}, indent=2, sort_keys=True)
[text.splitlines()[1], len(json.loads(text)["users"])]

# topic: modules
# expect value: ['  "users": [', 3]
