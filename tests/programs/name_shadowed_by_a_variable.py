price = 12
print(price * 2)

# expect stdout:
# | 24
