numbers = [1, 2, 3]
try:
    await add(*numbers)
except TypeError as error:
    print(error)

# expect stdout:
# | add() takes 2 positional arguments but 3 were given
