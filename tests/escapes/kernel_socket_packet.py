"""Opens a socket that reads all traffic."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no packet sockets"

if kernel("socket", 17, 3, 0) >= 0:
    print("REACHED")
