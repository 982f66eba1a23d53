"""Opens a socket to the cipher code of the kernel."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no AF_ALG"

if kernel("socket", 38, 5, 0) >= 0:
    print("REACHED")
