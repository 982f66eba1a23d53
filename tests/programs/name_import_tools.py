import tools

print(tools.add(2, 2))

# expect stdout:
# | 4
# expect calls: 1
