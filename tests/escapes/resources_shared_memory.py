"""Takes shared anonymous memory, which is no heap."""

STOPPED_BY = {"rlimits", "seccomp"}
LIMITS = {"memory_bytes": 67_108_864}

import mmap

block = mmap.mmap(-1, (80 << 20) if IS_CONTROL else (4 << 30), flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
block[-1] = 1
print("REACHED")
