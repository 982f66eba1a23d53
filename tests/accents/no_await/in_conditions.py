if add(1, -1):
    print("never")
elif price("A")["price"] == 10 and get_users():
    print("yes")
while add(0, 0):
    print("never")
found = price("B") if add(1, 0) else None
print("none" if found is None else found["price"])

# expect stdout:
# | yes
# | 20
# expect calls: 6
# expect hints:
# | 3 calls of 'add' ran one after another; 'await asyncio.gather(*[add(...) for ...])' runs independent calls at once
