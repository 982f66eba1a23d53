"""Takes memory in small objects until something gives."""

STOPPED_BY = {"rlimits"}
LIMITS = {"memory_bytes": 67_108_864}

blocks = []
for _ in range(90 if IS_CONTROL else 4000):
    blocks.append(bytes(1 << 20))
print("REACHED")
