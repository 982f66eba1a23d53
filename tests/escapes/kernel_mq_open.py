"""Makes a POSIX message queue, memory that nobody counts."""

STOPPED_BY = {"rlimits", "seccomp"}
MAY_LACK = "this kernel has no message queues"

if kernel("mq_open", b"of_the_guest", 0o102, 0o600, 0) not in (*REFUSED, -24):
    print("REACHED")
