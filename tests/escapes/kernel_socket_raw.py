"""Makes a raw socket."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("socket", 2, 3, 1) >= 0:
    print("REACHED")
