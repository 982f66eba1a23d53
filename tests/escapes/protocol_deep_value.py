"""Nests a value so deep that a recursive host overflows."""

STOPPED_BY = {"protocol"}
WITNESS = "error"

send_raw_end(b"[" * 100_000 + b"]" * 100_000)
os._exit(0)
