def down(n):
    return down(n + 1)


try:
    down(0)
except RecursionError as error:
    print(type(error).__name__)

# expect stdout:
# | RecursionError
