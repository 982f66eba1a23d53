total = sum(
    [
        1,
        2,
    ]
)
print(
    total / 0
)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 8, in __main__
# |     total / 0
# | ZeroDivisionError: division by zero
