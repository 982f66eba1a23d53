"""Chooses the processors that it runs on."""

STOPPED_BY = {"seccomp"}

if kernel("sched_setaffinity", 0, 8, struct.pack("=Q", 1)) not in REFUSED:
    print("REACHED")
