"""Switches address randomisation off for what it runs next."""

STOPPED_BY = {"seccomp"}

if kernel("personality", 0x0040000) not in REFUSED:
    print("REACHED")
