"""Clones a thread into a user namespace of its own."""

STOPPED_BY = {"seccomp"}

child = kernel("clone", 0x10000000 | 17, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
if child > 0:
    print("REACHED")
