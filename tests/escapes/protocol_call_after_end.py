"""Says that it is done, and then calls a tool."""

STOPPED_BY = {"protocol"}
WITNESS = "served_after_end"

send_end("done")
send_calls([[1, 0, {}]])
import time

time.sleep(0.1)
