"""Makes a unix socket, to connect to services of the host."""

STOPPED_BY = {"seccomp"}

if kernel("socket", 1, 1, 0) >= 0:
    print("REACHED")
