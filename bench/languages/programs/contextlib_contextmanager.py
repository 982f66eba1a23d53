from contextlib import contextmanager

events = []

@contextmanager
def step(name):
    events.append(f"<{name}")
    try:
        yield name.upper()
    finally:
        events.append(f"{name}>")

with step("load") as title:
    events.append(title)
events

# topic: functions
# expect value: ['<load', 'LOAD', 'load>']
