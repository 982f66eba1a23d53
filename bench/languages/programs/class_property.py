class Temperature:
    def __init__(self, celsius):
        self._celsius = celsius

    @property
    def fahrenheit(self):
        return self._celsius * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self._celsius = (value - 32) * 5 / 9

reading = Temperature(100)
before = reading.fahrenheit
reading.fahrenheit = 32
[before, reading._celsius]

# topic: classes
# expect value: [212.0, 0.0]
