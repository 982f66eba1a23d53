"""Asks for large replies and reads none, for the host to keep."""

STOPPED_BY = {"protocol"}
WITNESS = "answered_bytes > 80 << 20 and status != 'limit'"
LIMITS = {"reply_bytes": 2_097_152, "data_bytes": 1_048_576}

for number in range(1, 90):
    send_calls([[number, 2, {}]])
import time

time.sleep(0.5)
