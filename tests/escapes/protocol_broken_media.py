"""Sends media with parts missing."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_end({"\0m": ["image"]})
os._exit(0)
