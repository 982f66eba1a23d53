"""Fills the disk through the temporary folder."""

STOPPED_BY = {"mount"}
LIMITS = {"data_bytes": 4_194_304, "temp_bytes": 4_194_304}

import tempfile

parts = []
for number in range(10):
    part = tempfile.NamedTemporaryFile()
    part.write(bytes(1 << 20))
    part.flush()
    parts.append(part)
print("REACHED")
