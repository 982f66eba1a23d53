"""Sends bytes that are not base64."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_end({"\0b": "a"})
os._exit(0)
