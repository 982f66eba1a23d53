from unittest import mock
import requests
response = mock.Mock(spec=requests.Response)
response.status_code = requests.codes.ok
response.json.return_value = [1]
with mock.patch.object(requests.Session, 'get', return_value=response):
    r = requests.Session().get('https://a.b')
    print(r.status_code, r.json(), isinstance(r, requests.Response))

# expect stdout:
# | 200 [1] True
# limits: monty
