"""Sends NaN, which is no JSON and equal to nothing."""

STOPPED_BY = {"protocol"}
WITNESS = "value != value"

send_end(float("nan"))
os._exit(0)
