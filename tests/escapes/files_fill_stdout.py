"""Fills the disk through the file behind descriptor 1."""

STOPPED_BY = {"rlimits", "mount"}
LIMITS = {"data_bytes": 4_194_304, "temp_bytes": 4_194_304}

for number in range(10):
    os.write(1, bytes(1 << 20))
if os.fstat(1).st_size > 8 << 20:
    os.ftruncate(1, 0)
    print("REACHED")
