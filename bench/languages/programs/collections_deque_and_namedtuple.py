from collections import deque, namedtuple

Point = namedtuple("Point", "x y")
recent = deque(maxlen=2)
for n in range(5):
    recent.append(n)
recent.appendleft(9)
[list(recent), Point(1, 2)._asdict(), Point(1, 2).x]

# topic: modules
# expect value: [[9, 3], {'x': 1, 'y': 2}, 1]
