from dataclasses import dataclass


@dataclass
class Point:
    x: int


await echo({"p": Point(3)})

# expect value: {'p': {'x': 3}}
# expect calls: 1
