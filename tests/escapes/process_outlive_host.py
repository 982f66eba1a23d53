"""Clears the signal that ends it with its parent."""

STOPPED_BY = {"seccomp"}

if kernel("prctl", 1, 0, 0, 0, 0) == 0:
    print("REACHED")
