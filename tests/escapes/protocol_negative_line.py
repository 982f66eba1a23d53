"""Makes a call from before the program's first line: an index into its lines would give the last ones."""

STOPPED_BY = {"protocol"}
WITNESS = "-1 in lines"

send_calls([[1, 0, {}, -1]])
