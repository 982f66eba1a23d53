"""Forks by the oldest call, which the C library no longer uses."""

STOPPED_BY = {"seccomp"}
MACHINE = "x86_64"

child = kernel("fork")
if child == 0:
    os._exit(0)
if child > 0:
    print("REACHED")
