"""Makes shared memory that no limit of the process counts."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no System V memory"

if kernel("shmget", 0, 4096, 0o1600) not in REFUSED:
    print("REACHED")
