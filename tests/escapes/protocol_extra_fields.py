"""Hides fields behind the ones that are known."""

STOPPED_BY = {"protocol"}
WITNESS = "status == 'finished'"

send([*END, {"status": "failed"}])
os._exit(0)
