"""Writes one huge file."""

STOPPED_BY = {"rlimits", "mount"}
LIMITS = {"data_bytes": 4_194_304, "temp_bytes": 4_194_304}

import signal

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("large", "wb", buffering=0) as file:
    for _ in range(6):
        if file.write(bytes(1 << 20)) < 1 << 20:
            raise OSError("full")
print("REACHED")
