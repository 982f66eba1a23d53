"""Opens a user namespace, where it would be root with every right."""

STOPPED_BY = {"seccomp"}

if kernel("unshare", 0x10000000) == 0:
    print("REACHED")
