class Vector:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __eq__(self, other):
        return (self.x, self.y) == (other.x, other.y)

    def __repr__(self):
        return f"Vector({self.x}, {self.y})"

total = Vector(1, 2) + Vector(3, 4)
[repr(total), total == Vector(4, 6)]

# topic: classes
# expect value: ['Vector(4, 6)', True]
