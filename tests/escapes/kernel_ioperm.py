"""Talks to hardware ports."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no port access"
MACHINE = "x86_64"

if kernel("ioperm", 0x80, 1, 1) not in REFUSED:
    print("REACHED")
