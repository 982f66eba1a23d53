"""Opens a module of the standard library for writing."""

STOPPED_BY = {"user", "mount", "landlock", "caps"}
NEEDS_ROOT = True

import colorsys

with open(colorsys.__file__, "ab"):
    print("REACHED")
