log = []

class Step:
    def __init__(self, name):
        self.name = name

    def __enter__(self):
        log.append(f"start {self.name}")
        return self

    def __exit__(self, kind, error, trace):
        log.append(f"end {self.name}")
        return kind is ValueError

with Step("one"):
    raise ValueError("swallowed")
log

# topic: classes
# expect value: ['start one', 'end one']
