"""Watches what others do with files."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no inotify"

if kernel("inotify_init1", 0) not in REFUSED:
    print("REACHED")
