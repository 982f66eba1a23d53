import inspect

call = price("A")
print(inspect.isawaitable(call), inspect.iscoroutine(call), inspect.iscoroutinefunction(price))
call.close()
print((await price("B"))["price"])

# expect stdout:
# | True True True
# | 20
# expect calls: 1
# expect hints:
# | one call only: a direct call of 'price' would do
# limits: monty
