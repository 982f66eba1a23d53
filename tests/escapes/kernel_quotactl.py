"""Asks for and sets disk quotas."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no quotas"

if kernel("quotactl", 0x80000000 | 0x000100 << 8, 0, 0, 0) not in REFUSED:
    print("REACHED")
