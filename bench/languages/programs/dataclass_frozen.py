from dataclasses import FrozenInstanceError, dataclass, replace

@dataclass(frozen=True)
class Point:
    x: int
    y: int = 0

point = replace(Point(1), y=5)
try:
    point.x = 2
    changed = True
except FrozenInstanceError:
    changed = False
[point.x, point.y, changed, point == Point(1, 5)]

# topic: classes
# expect value: [1, 5, False, True]
