from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int


[Point(1, 2)]

# expect value: [{'x': 1, 'y': 2}]
