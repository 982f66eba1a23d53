try:
    tools.prise("A")
except AttributeError as error:
    print(error)

# expect stdout:
# | no tool 'prise'; did you mean 'price'?
# limits: monty
