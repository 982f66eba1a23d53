"""Has its memory merged with equal pages of others, which a slow write then gives away."""

STOPPED_BY = {"seccomp"}
MAY_LACK = "a kernel without CONFIG_KSM merges no pages"

import mmap

MERGEABLE = 12
memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if kernel("madvise", address, mmap.PAGESIZE, MERGEABLE) == 0:
    print("REACHED")
