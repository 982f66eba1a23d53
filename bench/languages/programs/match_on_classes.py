from dataclasses import dataclass

@dataclass
class Circle:
    radius: float

@dataclass
class Box:
    width: float
    height: float

def area(shape):
    match shape:
        case Circle(radius=r):
            return 3 * r * r
        case Box(w, h):
            return w * h

[area(Circle(2)), area(Box(2, 3))]

# topic: syntax
# expect value: [12, 6]
