"""Nests arguments deep enough to hurt whoever walks them later."""

STOPPED_BY = {"protocol"}
WITNESS = "served"

send_raw_arguments(b'{"a":' + b"[" * 300 + b"]" * 300 + b"}")
