import asyncio

first = price("A")
second, third = await asyncio.gather(price("B"), price("C"))
save_profile({"name": "Ada"})
if first is None:
    print("no price")
total = first["price"] + second["price"] + third["price"]
print(total, len(get_users()), (await price("A"))["price"])

# expect stdout:
# | 60 3 10
# expect calls: 6
