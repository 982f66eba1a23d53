print("  One, two ".strip().lower().replace(",", "").split())

# expect stdout:
# | ['one', 'two']
