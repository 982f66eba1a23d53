"""Calls an ungranted tool by its name in place of its index."""

STOPPED_BY = {"protocol"}
WITNESS = "'wipe' in dict(served).values() or error"

send_calls([[1, "wipe", {}]])
