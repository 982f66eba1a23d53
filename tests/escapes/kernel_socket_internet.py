"""Makes an internet socket at all."""

STOPPED_BY = {"seccomp"}

if kernel("socket", 2, 1, 0) >= 0:
    print("REACHED")
