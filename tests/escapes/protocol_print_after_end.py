"""Prints after its end."""

STOPPED_BY = {"protocol"}
WITNESS = "'late' in printed"

send_end("first")
send([2, "late", ""])
os._exit(0)
