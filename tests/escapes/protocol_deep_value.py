"""Nests a value so deep that a recursive host overflows."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_bytes(b'[3,"","","finished",' + b"[" * 100_000 + b"]" * 100_000 + b',"",[0,0]]')
os._exit(0)
