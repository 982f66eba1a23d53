"""Nests arguments deep enough to hurt whoever walks them later."""

STOPPED_BY = {"protocol"}
WITNESS = "served"

send_bytes(b'[1,"","",[[1,0,{"a":' + b"[" * 300 + b"]" * 300 + b"}]],-1]")
