"""Takes far more memory than it may."""

STOPPED_BY = {"rlimits"}
LIMITS = {"memory_bytes": 67_108_864}

block = bytearray((80 << 20) if IS_CONTROL else (4 << 30))
print("REACHED")
