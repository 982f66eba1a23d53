print([name for name in dir(tools) if name.startswith("get")])

# expect stdout:
# | ['get_expenses', 'get_users', 'get_weather']
# limits: monty
