from contextlib import contextmanager


@contextmanager
def marked(name):
    print("<", name)
    yield
    print(">", name)


with marked("x"):
    print("inside")

# expect stdout:
# | < x
# | inside
# | > x
# limits: monty
