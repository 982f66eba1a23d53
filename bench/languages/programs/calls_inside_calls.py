await add(a=await add(a=1, b=2), b=await add(a=3, b=4))

# topic: calls
# expect value: 10
