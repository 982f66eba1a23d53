stamp = datetime.now()
print(stamp.year >= 2024, isinstance(datetime.datetime(2024, 1, 2), datetime.datetime))
print(datetime.strptime("2024-01-02", "%Y-%m-%d").month)

# expect stdout:
# | True True
# | 1
# limits: monty
