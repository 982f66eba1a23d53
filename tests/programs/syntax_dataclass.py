from dataclasses import dataclass


@dataclass
class Point:
    x: int
    y: int = 2


print(Point(1), Point(1) == Point(1, 2))

# expect stdout:
# | Point(x=1, y=2) True
