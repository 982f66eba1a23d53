pending = add(a=40, b=2)
note = "not yet"
await pending

# topic: async
# expect value: 42
