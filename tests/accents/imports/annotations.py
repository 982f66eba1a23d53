import requests
def get(s: requests.Session | None) -> requests.Response: ...
print(requests.utils.quote('a b'))

# expect stdout:
# | a%20b
# limits: monty
