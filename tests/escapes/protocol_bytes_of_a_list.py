"""Sends a list where the text of bytes should be."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send([3, "", "", "finished", {"\0b": [1, 2]}, "", [0, 0]])
os._exit(0)
