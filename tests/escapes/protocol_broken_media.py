"""Sends media with parts missing."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send([3, "", "", "finished", {"\0m": ["image"]}, "", [0, 0]])
os._exit(0)
