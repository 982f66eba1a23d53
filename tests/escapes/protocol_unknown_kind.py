"""Sends a message of a kind that only the host may send."""

STOPPED_BY = {"protocol"}
WITNESS = "not problem"

send([4, "", "", []])
send_end(None)
os._exit(0)
