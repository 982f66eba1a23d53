"""Leaves its session and process group."""

STOPPED_BY = {"seccomp"}

if kernel("setsid") not in REFUSED or os.getsid(0) == os.getpid():
    print("REACHED")
