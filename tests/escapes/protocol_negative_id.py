"""Makes a call under a negative id."""

STOPPED_BY = {"protocol"}
WITNESS = "-1 in dict(served)"

send([1, "", "", [[-1, 0, {}]], -1])
