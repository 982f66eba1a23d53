import json

reply = await get_report(name="sales")
data = json.loads(reply)
data["total"]

# topic: modules
# expect value: 84
