print(tools.price("A")["price"])

# expect stdout:
# | 10
# expect calls: 1
