"""Renames the machine."""

STOPPED_BY = {"user", "uts", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("sethostname", HOST_NAME.encode(), len(HOST_NAME)) == 0:
    print("REACHED")
