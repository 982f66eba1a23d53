"""Makes a call under a negative id."""

STOPPED_BY = {"protocol"}
WITNESS = "-1 in dict(served)"

send_calls([[-1, 0, {}]])
