import inspect

print(inspect.signature(price))
help(price)

# expect stdout:
# | (*, ticker: str) -> Any
# | Help on function price in module tools.finance:
# |
# | async price(*, ticker: str) -> Any
# |     price.
# |
# limits: monty
