"""Compares kernel objects of processes."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no kcmp"

if kernel("kcmp", os.getpid(), os.getpid(), 0, 0, 0) not in REFUSED:
    print("REACHED")
