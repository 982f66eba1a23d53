"""Sets up a ring for system calls that no filter sees."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "this kernel has no io_uring, or has it switched off"

if kernel("io_uring_setup", 8, ctypes.create_string_buffer(120)) not in REFUSED:
    print("REACHED")
