total = 0
for n in range(50):
    total = await add(total, n)
print(total)

# expect stdout:
# | 1225
# expect calls: 50
