"""Changes its root, to walk out of the old one."""

STOPPED_BY = {"caps", "seccomp"}

if kernel("chroot", b".") == 0:
    print("REACHED")
