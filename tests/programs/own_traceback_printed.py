import traceback

try:
    1 / 0
except ZeroDivisionError:
    print(traceback.format_exc().splitlines()[2].strip())

# expect stdout:
# | 1 / 0
# limits: monty
