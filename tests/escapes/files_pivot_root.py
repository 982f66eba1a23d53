"""Swaps its root for another mount."""

STOPPED_BY = {"caps", "landlock", "seccomp"}

if kernel("pivot_root", b".", b".") not in REFUSED:
    print("REACHED")
