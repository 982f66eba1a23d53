print("before")
await add(1, 1)
print("between")
await add(2, 2)
print("after")

# expect stdout:
# | before
# | between
# | after
# expect calls: 2
