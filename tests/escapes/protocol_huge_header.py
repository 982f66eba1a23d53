"""Announces a frame of four gigabytes, for the host to make room."""

STOPPED_BY = {"protocol"}
WITNESS = "error.startswith('waits for 4294967295')"

os.write(3, b"\xff\xff\xff\xff" + bytes(1000))
import time

time.sleep(0.5)
