"""Hides the flags of a clone in the upper half of the register."""

STOPPED_BY = {"seccomp"}

child = kernel("clone", 17 | 1 << 40, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
if child > 0:
    print("REACHED")
