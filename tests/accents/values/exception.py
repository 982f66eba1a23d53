try:
    1 / 0
except ZeroDivisionError as error:
    problem = error
[problem, type(problem)]

# expect value: ["ZeroDivisionError('division by zero')", "<class 'ZeroDivisionError'>"]
# expect hints:
# | value[0] is a 'ZeroDivisionError', which has no JSON form; its text was sent
# | value[1] is a 'type', which has no JSON form; its text was sent
