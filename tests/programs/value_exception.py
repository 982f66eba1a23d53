try:
    1 / 0
except ZeroDivisionError as error:
    problem = error
[problem, type(problem)]

# expect value: ["ZeroDivisionError('division by zero')", "<class 'ZeroDivisionError'>"]
