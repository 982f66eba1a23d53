"""Makes a call under an id that no database column holds."""

STOPPED_BY = {"protocol"}
WITNESS = "10**30 in dict(served)"

send_calls([[10**30, 0, {}]])
