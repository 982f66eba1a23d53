"""Looks into the keyrings of its user."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no keyrings"

if kernel("keyctl", 0, -4, 1) not in REFUSED:
    print("REACHED")
