"""Sets the clock of the machine."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True

if kernel("clock_settime", 0, struct.pack("=qq", -1, -1)) not in REFUSED:
    print("REACHED")
