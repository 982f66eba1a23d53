"""Enters the namespaces of the host."""

STOPPED_BY = {"user", "caps", "landlock", "seccomp"}
NEEDS_ROOT = True

if kernel("setns", kernel("pidfd_open", HOST_PID, 0), 0x04000000) == 0:
    print("REACHED")
