from functools import total_ordering

@total_ordering
class Version:
    __slots__ = ("parts",)

    def __init__(self, text):
        self.parts = tuple(int(part) for part in text.split("."))

    def __eq__(self, other):
        return self.parts == other.parts

    def __lt__(self, other):
        return self.parts < other.parts

    def __str__(self):
        return ".".join(map(str, self.parts))

[str(version) for version in sorted(map(Version, ["1.10", "1.9", "0.5"]))]

# topic: classes
# expect value: ['0.5', '1.9', '1.10']
