"""Pins memory that the machine then cannot use otherwise."""

STOPPED_BY = {"rlimits", "seccomp"}

memory = ctypes.create_string_buffer(8192)
if kernel("mlock", memory, 4096) == 0:
    print("REACHED")
