"""Sends frames without a call, each of which the host would put on record."""

STOPPED_BY = {"protocol"}
WITNESS = "taped > 20_000"

body = json.dumps(calls_frame([], tape=[[], []])).encode()
frame = struct.pack("<I", len(body)) + body
for _ in range(250):
    os.write(3, frame * 100)
