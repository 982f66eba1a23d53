"""Calls with a truth value for an index, which Python takes for a number."""

STOPPED_BY = {"protocol"}
WITNESS = "served"

send([1, "", "", [[1, True, {}]], -1])
