class Money:
    def __init__(self, cents):
        self.cents = cents

    @classmethod
    def parse(cls, text):
        return cls(round(float(text) * 100))

    @staticmethod
    def symbol():
        return "€"

    def __str__(self):
        return f"{self.symbol()}{self.cents / 100:.2f}"

str(Money.parse("12.5"))

# topic: classes
# expect value: '€12.50'
