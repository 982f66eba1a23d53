"""Claims to have seen replies that were never sent."""

STOPPED_BY = {"protocol"}
WITNESS = "not problem"

send([1, "", "", [], -7])
send([3, "", "", "finished", None, "", [0, 0]])
os._exit(0)
