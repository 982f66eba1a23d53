"""Makes two calls under one id, so that one of them is not on record."""

STOPPED_BY = {"protocol"}
WITNESS = "len(served) > len(dict(served))"

send_calls([[1, 0, {}], [1, 1, {}]])
