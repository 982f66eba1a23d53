"""Makes more calls than it may in one frame."""

STOPPED_BY = {"protocol"}
WITNESS = "len(served) > 1000"

send_calls([[number, 0, {}] for number in range(1, 2001)])
import time

time.sleep(0.3)
