"""Calls a tool that the host has but did not grant, by its index."""

STOPPED_BY = {"protocol"}
WITNESS = "'wipe' in dict(served).values()"

send([1, "", "", [[1, 3, {}]], -1])
