"""Handles its own page faults, which makes races in the kernel easy to win."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no userfaultfd"

if kernel("userfaultfd", 1) not in REFUSED:
    print("REACHED")
