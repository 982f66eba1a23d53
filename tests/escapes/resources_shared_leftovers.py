"""Takes shared anonymous memory and unmaps all but a page of each block, so that the rest counts nowhere."""

STOPPED_BY = {"seccomp"}
LIMITS = {"memory_bytes": 67_108_864}

SIZE, READ_AND_WRITE, SHARED_ANONYMOUS = 16 << 20, 3, 0x21
_libc.mmap.restype = ctypes.c_void_p
for _ in range(8):
    place = _libc.mmap(None, ctypes.c_size_t(SIZE), READ_AND_WRITE, SHARED_ANONYMOUS, -1, ctypes.c_long(0))
    if place == 2**64 - 1:
        break
    ctypes.memset(place, 1, SIZE)
    _libc.munmap(ctypes.c_void_p(place + 4096), ctypes.c_size_t(SIZE - 4096))
else:
    print("REACHED")
