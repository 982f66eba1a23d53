"""Ends with a status that only the host may give."""

STOPPED_BY = {"protocol"}
WITNESS = "status == 'cancelled'"

send_end(None, status="cancelled")
os._exit(0)
