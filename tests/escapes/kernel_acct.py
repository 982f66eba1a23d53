"""Switches process accounting on or off."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no accounting"

if kernel("acct", b"/nowhere") not in REFUSED:
    print("REACHED")
