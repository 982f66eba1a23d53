class Shape:
    def name(self):
        return "shape"


class Square(Shape):
    def name(self):
        return "square " + super().name()


print(Square().name())

# expect stdout:
# | square shape
# limits: monty
