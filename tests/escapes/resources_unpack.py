"""Unpacks a small text into a huge one."""

STOPPED_BY = {"rlimits"}
LIMITS = {"memory_bytes": 67_108_864}

import zlib

packed = zlib.compress(bytes(16 << 20), 1)
blocks = [zlib.decompress(packed) for _ in range(6 if IS_CONTROL else 200)]
print("REACHED")
