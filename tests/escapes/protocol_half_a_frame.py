"""Sends half a frame and waits, for the host to wait too."""

STOPPED_BY = {"protocol"}
WITNESS = "error.startswith('waits')"

os.write(3, struct.pack("<I", 100) + b"[1,")
import time

time.sleep(1000)
