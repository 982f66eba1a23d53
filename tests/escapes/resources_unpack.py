"""Unpacks a small text into a huge one."""

STOPPED_BY = {"rlimits"}
LIMITS = {"memory_bytes": 67_108_864}

import zlib

packed = zlib.compress(bytes(100 << 20) if IS_CONTROL else bytes(16 << 20))
for _ in range(1 if IS_CONTROL else 100):
    blocks = [zlib.decompress(packed) for _ in range(1 if IS_CONTROL else 100)]
print("REACHED")
