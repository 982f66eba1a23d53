"""Moves its memory between nodes."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no memory nodes"

if kernel("mbind", 0, 0, 0, 0, 0, 0) not in REFUSED:
    print("REACHED")
