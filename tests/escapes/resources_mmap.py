"""Takes memory from the kernel directly."""

STOPPED_BY = {"rlimits"}
LIMITS = {"memory_bytes": 67_108_864}

import mmap

blocks = [mmap.mmap(-1, 10 << 20, flags=mmap.MAP_PRIVATE) for _ in range(8 if IS_CONTROL else 400)]
for block in blocks:
    block[0] = 1
print("REACHED")
