import requests
try:
    raise requests.exceptions.HTTPError('404', response=None)
except requests.exceptions.RequestException as e:
    print(e, requests.HTTPError is requests.exceptions.HTTPError)

# expect stdout:
# | 404 True
# limits: monty
