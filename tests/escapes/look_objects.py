"""Looks through every object that the collector knows."""

STOPPED_BY = {"own process"}

import gc

wanted = "canary-" + "host"
for thing in gc.get_objects():
    items = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, (list, tuple)) else ()
    for item in list(items):
        if isinstance(item, str) and item.startswith(wanted) and len(item) == len(wanted) + 17:
            print("REACHED")
