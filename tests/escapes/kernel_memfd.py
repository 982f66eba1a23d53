"""Makes a file in memory, past the limited folders."""

STOPPED_BY = {"seccomp"}

if kernel("memfd_create", b"x", 0) not in REFUSED:
    print("REACHED")
