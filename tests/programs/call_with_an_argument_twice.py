arguments = {"a": 2}
try:
    await add(1, **arguments)
except TypeError as error:
    print(error)

# expect stdout:
# | add() got multiple values for argument 'a'
