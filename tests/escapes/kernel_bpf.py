"""Loads programs into the kernel."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no bpf"

if kernel("bpf", 0, 0, 0) not in REFUSED:
    print("REACHED")
