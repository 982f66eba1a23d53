"""Calls the last tool of the host by a negative index."""

STOPPED_BY = {"protocol"}
WITNESS = "'wipe' in dict(served).values()"

send_calls([[1, -1, {}]])
