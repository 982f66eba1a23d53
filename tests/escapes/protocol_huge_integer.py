"""Sends a number with a hundred thousand digits."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_raw_end(b"9" * 100_000)
os._exit(0)
