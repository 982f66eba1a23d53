"""Takes the machine from others with a higher priority."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("setpriority", 0, 0, -10) == 0:
    print("REACHED")
