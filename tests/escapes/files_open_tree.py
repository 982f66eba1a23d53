"""Copies a mount with the newer mount calls."""

STOPPED_BY = {"caps", "seccomp"}

if kernel("open_tree", -100, b"/tmp", 1) >= 0:
    print("REACHED")
