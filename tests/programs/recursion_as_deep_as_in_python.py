import sys

depth = 0


def down():
    global depth
    depth += 1
    down()


try:
    down()
except RecursionError:
    print(depth, sys.getrecursionlimit())

# expect stdout:
# | 999 1000
# limits: monty
