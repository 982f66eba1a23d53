"""Reboots the machine."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("reboot", 1, 2, 3, 0) not in REFUSED:
    print("REACHED")
