"""Sends a list where the text of bytes should be."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_end({"\0b": [1, 2]})
os._exit(0)
