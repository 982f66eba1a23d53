from collections import namedtuple

Point = namedtuple("Point", "x y")
[Point(1, 2), Point(x=3, y=4)._asdict()]

# expect value: [[1, 2], {"x": 3, "y": 4}]
