"""Calls a tool that the host has but did not grant, by its index."""

STOPPED_BY = {"protocol"}
WITNESS = "'wipe' in dict(served).values()"

send_calls([[1, 3, {}]])
