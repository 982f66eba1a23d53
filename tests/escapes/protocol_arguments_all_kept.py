"""Makes calls with large arguments, all of which the host would keep."""

STOPPED_BY = {"protocol"}
WITNESS = "len(served) > 150"
WALL_SECONDS = 10.0

text = "x" * 1_000_000
for number in range(1, 201):
    send_calls([[number, 0, {"a": text}]])
