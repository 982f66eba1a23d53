"""Looks for the host's own modules among those that are loaded."""

STOPPED_BY = {"own process"}

import sys

if any(name == "toolfold" or name.startswith("toolfold.") for name in sys.modules):
    print("REACHED")
