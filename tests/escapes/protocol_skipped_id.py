"""Skips ids, so that a replay cannot match calls to replies."""

STOPPED_BY = {"protocol"}
WITNESS = "5 in dict(served)"

send_calls([[5, 0, {}]])
