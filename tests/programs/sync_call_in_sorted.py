sorted("CAB", key=lambda ticker: -tools.price(ticker)["price"])

# expect value: ['C', 'B', 'A']
# expect calls: 3
# limits: monty
