from functools import wraps

calls = []

def logged(function):
    @wraps(function)
    def wrapper(*args, **kwargs):
        calls.append(function.__name__)
        return function(*args, **kwargs)
    return wrapper

@logged
def double(n):
    return n * 2

[double(4), calls, double.__name__]

# topic: functions
# expect value: [8, ['double'], 'double']
