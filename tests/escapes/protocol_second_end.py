"""Ends twice, to put another value over the first one."""

STOPPED_BY = {"protocol"}
WITNESS = "value == 'second'"

send_end("first")
send_end("second")
os._exit(0)
