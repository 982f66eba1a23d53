"""Watches whole mounts."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel keeps fanotify for root"

if kernel("fanotify_init", 0x200, 0) not in REFUSED:
    print("REACHED")
