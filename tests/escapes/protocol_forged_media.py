"""Sends media of a kind that does not exist."""

STOPPED_BY = {"protocol"}
WITNESS = "getattr(value, 'kind', '') == 'program'"

send_end({"\0m": ["program", "text/html", "", "", ""]})
os._exit(0)
