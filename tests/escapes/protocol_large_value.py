"""Ends with a value far beyond the limit, past the guest's own check."""

STOPPED_BY = {"protocol"}
WITNESS = "len(value or '') > 20_000_000"

send_end("x" * 20_000_001)
os._exit(0)
