import inspect

call = price("A")
print(inspect.isawaitable(call), inspect.iscoroutine(call), inspect.iscoroutinefunction(price))
call.close()
print((await price("B"))["price"])

# expect stdout:
# | True True True
# | 20
# expect calls: 1
# limits: monty
