"""Sends bytes that are no text."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_raw_end(b'"\xff\xfe"')
os._exit(0)
