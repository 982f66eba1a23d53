"""Says that less than nothing was cut from its output."""

STOPPED_BY = {"protocol"}
WITNESS = "min(cut_bytes) < 0"

send_end(None, cut_bytes=[-5, 0])
os._exit(0)
