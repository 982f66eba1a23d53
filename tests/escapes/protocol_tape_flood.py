"""Sends more clock reads than a replay needs, for the host to keep."""

STOPPED_BY = {"protocol"}
WITNESS = "taped > 15_000"

for _ in range(30):
    send_calls([], tape=[[1] * 500, [1.5] * 500])
