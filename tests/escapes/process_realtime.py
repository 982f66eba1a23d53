"""Runs as a real-time process that nothing else can interrupt."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "the control group here has no real-time share"

if kernel("sched_setscheduler", 0, 1, struct.pack("i", 1)) == 0:
    kernel("sched_setscheduler", 0, 0, struct.pack("i", 0))
    print("REACHED")
