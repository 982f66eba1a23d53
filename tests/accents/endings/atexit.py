import atexit

atexit.register(print, "second")
atexit.register(print, "first")
print("body")

# expect stdout:
# | body
# | first
# | second
# limits: monty
