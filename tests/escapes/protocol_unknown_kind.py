"""Sends a message of a kind that only the host may send."""

STOPPED_BY = {"protocol"}
WITNESS = "not problem"

send([4, "", "", []])
send([3, "", "", "finished", None, "", [0, 0]])
os._exit(0)
