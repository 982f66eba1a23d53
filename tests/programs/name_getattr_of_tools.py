name = "add"
print(getattr(tools, name)(5, 6))

# expect stdout:
# | 11
# expect calls: 1
