"""Opens a socket to the network configuration of the kernel."""

STOPPED_BY = {"seccomp"}

if kernel("socket", 16, 3, 0) >= 0:
    print("REACHED")
