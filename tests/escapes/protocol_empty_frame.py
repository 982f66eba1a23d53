"""Sends a frame with nothing in it."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_bytes(b"")
os._exit(0)
