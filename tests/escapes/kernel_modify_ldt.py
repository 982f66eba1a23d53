"""Edits its segment table, old code with a long history of holes."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no modify_ldt"
MACHINE = "x86_64"

if kernel("modify_ldt", 0, 0, 0) not in REFUSED:
    print("REACHED")
