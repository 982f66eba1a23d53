class Account:
    def __init__(self, balance):
        self.balance = balance

    def spend(self, amount):
        if amount > self.balance:
            raise ValueError(f"only {self.balance} left")
        self.balance -= amount


Account(5).spend(7)

# expect error:
# | Traceback (most recent call last):
# |   File "<program>", line 11, in __main__
# |     Account(5).spend(7)
# |   File "<program>", line 7, in spend
# |     raise ValueError(f"only {self.balance} left")
# | ValueError: only 5 left
