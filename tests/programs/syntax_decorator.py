def twice(function):
    def inner(*args):
        return function(*args) * 2

    return inner


@twice
def size(text):
    return len(text)


print(size("abc"))

# expect stdout:
# | 6
