class TooMuch(Exception):
    pass


def spend(amount):
    raise TooMuch(f"{amount} is too much")


spend(100)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 9, in __main__
# |     spend(100)
# |   File "<program>", line 6, in spend
# |     raise TooMuch(f"{amount} is too much")
# | TooMuch: 100 is too much
# limits: monty
