"""Makes a message queue that outlives it."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no System V queues"

if kernel("msgget", 0, 0o1600) not in REFUSED:
    print("REACHED")
