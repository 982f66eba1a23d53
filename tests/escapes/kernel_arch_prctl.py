"""Reads and moves the bases of its segments, and asks for more processor state."""

STOPPED_BY = {"seccomp"}
MACHINE = "x86_64"

GET_FS, GET_GS, SET_GS, REQUEST_STATE = 0x1003, 0x1004, 0x1001, 0x1023
place = ctypes.addressof(ctypes.c_uint64())
for code, argument in ((GET_FS, place), (GET_GS, place), (SET_GS, 0), (REQUEST_STATE, 18)):
    if kernel("arch_prctl", code, argument) not in REFUSED:
        print("REACHED")
