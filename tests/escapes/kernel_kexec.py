"""Loads another kernel."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no kexec"

if kernel("kexec_load", 0, 0, 0, 1 << 20) not in REFUSED:
    print("REACHED")
