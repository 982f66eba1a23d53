"""Walks the call stack up into the host."""

STOPPED_BY = {"own process"}

import sys

frame = sys._getframe()
while frame is not None:
    for name, value in {**frame.f_locals, **frame.f_globals}.items():
        if isinstance(value, str) and value.startswith("canary-" + "host"):
            print("REACHED")
    frame = frame.f_back
