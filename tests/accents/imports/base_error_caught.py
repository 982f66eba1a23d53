import requests
try:
    requests.get('https://a.b')
except requests.RequestException as error:
    print(type(error).__name__, error.response)

# expect stdout:
# | ConnectionError None
# limits: monty
