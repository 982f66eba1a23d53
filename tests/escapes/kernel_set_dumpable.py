"""Makes itself open to debuggers."""

STOPPED_BY = {"seccomp"}

if kernel("prctl", 4, 1, 0, 0, 0) not in REFUSED:
    print("REACHED")
