def rows():
    try:
        yield 1
        yield 2
    finally:
        print("closed")


lines = rows()
print(next(lines))

# expect stdout:
# | 1
# | closed
# limits: monty
