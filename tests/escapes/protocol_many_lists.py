"""Ends with a value of millions of empty lists, each a few bytes on the wire and many in the host."""

STOPPED_BY = {"protocol"}
WITNESS = "len(value or ()) > 1_000_000"

count = 1_100_000 if IS_CONTROL else 15_000_000
send_raw_end(b"[" + b"[]," * count + b"[]]")
os._exit(0)
