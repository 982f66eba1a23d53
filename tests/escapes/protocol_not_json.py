"""Sends a frame of rubbish."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_bytes(b"\0\1\2 rubbish")
os._exit(0)
