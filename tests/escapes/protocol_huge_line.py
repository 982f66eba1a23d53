"""Makes a call from a line that no program has and no database column holds."""

STOPPED_BY = {"protocol"}
WITNESS = "10**30 in lines"

send_calls([[1, 0, {}, 10**30]])
