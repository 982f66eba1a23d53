"""Sends text that cannot be written anywhere."""

STOPPED_BY = {"protocol"}
WITNESS = "isinstance(value, str) and not is_text(value)"

send_raw_end(b'"\\ud800"')
os._exit(0)
