"""Says that more was cut than any number of bytes."""

STOPPED_BY = {"protocol"}
WITNESS = "max(cut_bytes) >= 2**63"

send_end(None, cut_bytes=[10**30, 0])
os._exit(0)
