import requests

users = await get_users()
print(requests.get("https://example.com/" + users[0]["id"]).json())

# expect rejected: line 4: 'requests.get' cannot work here: there is no network; call a tool instead: get_users, get_expenses, price, add, echo, fail, ...
# limits: monty
