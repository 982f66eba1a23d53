class Thing:
    pass


try:
    await echo(value=[Thing()])
except TypeError as error:
    print(error)

# expect stdout:
# | echo argument ['value'][0] is a 'Thing', which cannot be sent; make it JSON values or bytes first
