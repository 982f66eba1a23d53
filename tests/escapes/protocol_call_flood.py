"""Makes more calls than it may, past the guest's own counting."""

STOPPED_BY = {"protocol"}
WITNESS = "len(served) > 1000"

for number in range(1, 2001):
    send_calls([[number, 0, {}]])
