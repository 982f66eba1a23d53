class Row:
    def __init__(self, amount):
        self.amount = amount

    @property
    def doubled(self):
        return self.amount * 2


print(Row(4).doubled)

# expect stdout:
# | 8
# limits: monty
