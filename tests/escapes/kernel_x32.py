"""Makes a system call of the x32 kind, with bit 30 set."""

STOPPED_BY = {"seccomp"}
MACHINE = "x86_64"
MAY_LACK = "this kernel has no x32 calls"

NR["x32"] = NR["getpid"] | 0x40000000
if kernel("x32") == os.getpid():
    print("REACHED")
