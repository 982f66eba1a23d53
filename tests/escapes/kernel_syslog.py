"""Reads the kernel log, which has addresses in it."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("syslog", 10, 0, 0) not in REFUSED:
    print("REACHED")
