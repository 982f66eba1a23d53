"""Adds swap space."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no swap"

if kernel("swapon", b"/nowhere", 0) not in REFUSED:
    print("REACHED")
