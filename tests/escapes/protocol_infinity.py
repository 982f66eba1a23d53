"""Sends an infinite number."""

STOPPED_BY = {"protocol"}
WITNESS = "value == float('inf')"

send_raw_end(b"Infinity")
os._exit(0)
