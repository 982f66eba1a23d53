cost = tools.price
print(cost("C")["price"])

# expect stdout:
# | 30
# expect calls: 1
