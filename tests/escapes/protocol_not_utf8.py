"""Sends bytes that are no text."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_bytes(b'[3,"\xff\xfe","","finished",null,"",[0,0]]')
os._exit(0)
