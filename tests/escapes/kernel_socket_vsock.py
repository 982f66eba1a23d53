"""Opens a socket to the machine that hosts this one."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no vsock"

if kernel("socket", 40, 1, 0) >= 0:
    print("REACHED")
