"""Sends a number with a hundred thousand digits."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_bytes(b'[3,"","","finished",' + b"9" * 100_000 + b',"",[0,0]]')
os._exit(0)
