"""Clones a process by number, with no flag but the signal at its end."""

STOPPED_BY = {"seccomp"}

child = kernel("clone", 17, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
if child > 0:
    print("REACHED")
