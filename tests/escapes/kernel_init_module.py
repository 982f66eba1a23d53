"""Loads a module into the kernel."""

STOPPED_BY = {"user", "caps", "seccomp"}
NEEDS_ROOT = True
MAY_LACK = "this kernel has no modules"

if kernel("init_module", 0, 0, 0) not in REFUSED:
    print("REACHED")
