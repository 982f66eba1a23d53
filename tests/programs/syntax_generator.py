def countdown(n):
    while n:
        yield n
        n -= 1


print(list(countdown(3)))

# expect stdout:
# | [3, 2, 1]
# limits: monty
