"""Calls with a truth value for an index, which Python takes for a number."""

STOPPED_BY = {"protocol"}
WITNESS = "served"

send_calls([[1, True, {}]])
