"""Prints without end, past the guest's own limit."""

STOPPED_BY = {"protocol"}
WITNESS = "len(printed) > 16 << 20"

for _ in range(300):
    send([2, "x" * 65_536, ""])
