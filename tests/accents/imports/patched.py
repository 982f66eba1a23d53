from unittest.mock import MagicMock, patch
import requests
def fetch(url):
    return requests.get(url).json()
with patch('requests.get') as get:
    get.return_value.json.return_value = {'a': 1}
    print(fetch('https://a.b'))

# expect stdout:
# | {'a': 1}
# limits: monty
