"""Mounts a file system of its own, without limits."""

STOPPED_BY = {"caps", "landlock", "seccomp"}

if kernel("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, 0) == 0:
    print("REACHED")
