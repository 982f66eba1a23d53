import inspect
import linecache


def double(x):
    return 2 * x


class Thing:
    size = 1


print(inspect.getsource(double))
print(inspect.getsource(Thing).splitlines()[1], linecache.getline("<program>", 1).strip())

# expect stdout:
# | def double(x):
# |     return 2 * x
# |
# |     size = 1 import inspect
# limits: monty
