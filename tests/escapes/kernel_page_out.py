"""Drives pages out of memory and makes others cold, by its own choice and at the cost of everyone's disk."""

STOPPED_BY = {"seccomp"}

import mmap

COLD, PAGE_OUT, SOFT_OFFLINE = 20, 21, 101
memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
memory[0] = 1
address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
if 0 in [kernel("madvise", address, mmap.PAGESIZE, advice) for advice in (COLD, PAGE_OUT, SOFT_OFFLINE)]:
    print("REACHED")
