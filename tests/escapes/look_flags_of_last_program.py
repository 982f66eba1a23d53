"""Reads a message that the program before it left in the flags of standard input."""

STOPPED_BY = {"own descriptors"}
BEFORE = """
import fcntl, os

fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_APPEND | os.O_NONBLOCK)
"""

import fcntl

if fcntl.fcntl(0, fcntl.F_GETFL) & (os.O_APPEND | os.O_NONBLOCK):
    print("REACHED")
