def counter():
    n = 0

    def step():
        nonlocal n
        n += 1
        return n

    return step


step = counter()
step()
print(step())

# expect stdout:
# | 2
