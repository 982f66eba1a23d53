"""Sends media of a kind that does not exist."""

STOPPED_BY = {"protocol"}
WITNESS = "getattr(value, 'kind', '') == 'program'"

send([3, "", "", "finished", {"\0m": ["program", "text/html", "", "", ""]}, "", [0, 0]])
os._exit(0)
