"""Reads a shared memory segment of the host."""

STOPPED_BY = {"ipc", "seccomp"}
MAY_LACK = "this kernel has no System V memory"

segment = kernel("shmget", SHARED_KEY, 4096, 0)
address = kernel("shmat", segment, 0, 0)
if address < 0:
    raise OSError(-address, "shmat")
if ctypes.string_at(address, 6) == b"canary":
    print("REACHED")
