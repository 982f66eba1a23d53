"""Becomes root."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("setuid", 0) == 0 and os.getuid() == 0:
    print("REACHED")
