"""Opens a file system by the newer mount calls."""

STOPPED_BY = {"caps", "seccomp"}

if kernel("fsopen", b"tmpfs", 0) not in REFUSED:
    print("REACHED")
