"""Sends bytes that are not base64."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send([3, "", "", "finished", {"\0b": "a"}, "", [0, 0]])
os._exit(0)
