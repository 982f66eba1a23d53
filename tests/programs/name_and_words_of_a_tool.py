print(price.__name__, price.__doc__)

# expect stdout:
# | price price.
# limits: monty
