"""Says that it is done, and then calls a tool."""

STOPPED_BY = {"protocol"}
WITNESS = "served_after_end"

send([3, "", "", "finished", "done", "", [0, 0]])
send([1, "", "", [[1, 0, {}]], -1])
import time

time.sleep(0.1)
