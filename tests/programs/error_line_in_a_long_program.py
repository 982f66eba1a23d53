a = 1
b = 2

# a comment


def check(n):
    """Words."""
    if n > 2:
        raise ValueError(f"too large: {n}")
    return n


for n in range(5):
    check(n)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 15, in __main__
# |     check(n)
# |   File "<program>", line 10, in check
# |     raise ValueError(f"too large: {n}")
# | ValueError: too large: 3
