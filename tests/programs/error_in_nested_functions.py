def outer(n):
    return inner(n) + 1


def inner(n):
    return 10 / n


outer(0)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 9, in __main__
# |     outer(0)
# |   File "<program>", line 2, in outer
# |     return inner(n) + 1
# |   File "<program>", line 6, in inner
# |     return 10 / n
# | ZeroDivisionError: division by zero
