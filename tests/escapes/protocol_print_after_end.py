"""Prints after its end."""

STOPPED_BY = {"protocol"}
WITNESS = "'late' in printed"

send([3, "", "", "finished", "first", "", [0, 0]])
send([2, "late", ""])
os._exit(0)
