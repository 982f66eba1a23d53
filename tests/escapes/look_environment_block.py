"""Looks for secrets in the environment as the C library keeps it."""

STOPPED_BY = {"own process"}

block = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
index = 0
while block and block[index]:
    if b"canary" in block[index]:
        print("REACHED")
    index += 1
