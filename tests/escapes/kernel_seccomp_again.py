"""Adds a filter of its own, which can hand system calls to another process."""

STOPPED_BY = {"seccomp"}

if kernel("seccomp", 2, 0, struct.pack("=I", 0x7FFF0000)) not in REFUSED:
    print("REACHED")
