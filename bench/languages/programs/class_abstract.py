from abc import ABC, abstractmethod

class Shape(ABC):
    @abstractmethod
    def area(self): ...

class Square(Shape):
    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side ** 2

try:
    Shape()
    made = True
except TypeError:
    made = False
[Square(3).area(), made]

# topic: classes
# expect value: [9, False]
