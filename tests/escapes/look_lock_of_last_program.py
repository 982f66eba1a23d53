"""Finds a lock that the program before it left on standard input."""

STOPPED_BY = {"own descriptors"}
BEFORE = """
import fcntl

try:
    fcntl.flock(0, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    pass
"""

import fcntl

shared = "/proc/self/fd/0" if os.path.exists("/proc/self/fd/0") else "/dev/null"
same_file = os.open(shared, os.O_RDONLY)
try:
    fcntl.flock(same_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("REACHED")
