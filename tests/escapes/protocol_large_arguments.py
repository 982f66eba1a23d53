"""Sends arguments far beyond the limit, past the guest's own check."""

STOPPED_BY = {"protocol"}
WITNESS = "largest_argument_bytes > 20_000_000"

send_calls([[1, 0, {"text": "x" * 20_000_000}]])
