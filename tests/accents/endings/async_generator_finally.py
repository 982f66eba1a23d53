async def rows():
    try:
        yield 1
        yield 2
    finally:
        print("closed")


lines = rows()
print(await anext(lines))

# expect stdout:
# | 1
# | closed
# limits: monty
