import requests
r = requests.Response()
r.status_code = 404
r._content = b'{"a": 1}'
print(r.ok, r.json(), r.text)
try:
    r.raise_for_status()
except requests.HTTPError as e:
    print(e.response is r)

# expect stdout:
# | False {'a': 1} {"a": 1}
# | True
# limits: monty
