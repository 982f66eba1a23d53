"""Makes semaphores that outlive it."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no System V semaphores"

if kernel("semget", 0, 1, 0o1600) not in REFUSED:
    print("REACHED")
