"""Ends with a status that only the host may give."""

STOPPED_BY = {"protocol"}
WITNESS = "status == 'cancelled'"

send([3, "", "", "cancelled", None, "", [0, 0]])
os._exit(0)
