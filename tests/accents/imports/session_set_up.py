import requests
session = requests.Session()
session.headers.update({'a': 'b'})
print(session.headers)

# expect stdout:
# | {'a': 'b'}
# limits: monty
