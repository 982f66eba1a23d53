"""Enlarges pipes: kernel memory that nobody counts."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel gives ordinary users no larger pipes"

import fcntl
if fcntl.fcntl(os.pipe()[1], 1031, 1 << 20) >= 1 << 20:
    print("REACHED")
