import requests
from requests.exceptions import ConnectionError, HTTPError, Timeout
try:
    requests.post('https://a.b', json={})
except (Timeout, HTTPError):
    print('no')
except ConnectionError:
    print('offline')

# expect stdout:
# | offline
# limits: monty
