import requests
print(price('A')['price'])

# expect stdout:
# | 10
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
# limits: monty
