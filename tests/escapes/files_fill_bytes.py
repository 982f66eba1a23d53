"""Fills the disk with files that are each small enough."""

STOPPED_BY = {"mount"}
LIMITS = {"data_bytes": 4_194_304, "temp_bytes": 4_194_304}

written = 0
for number in range(10):
    with open(f"part {number}", "wb") as file:
        written += file.write(bytes(1 << 20))
if written > 8 << 20:
    print("REACHED")
