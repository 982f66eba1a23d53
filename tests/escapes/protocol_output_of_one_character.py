"""Sends its output one character at a time, and the host has the work of a frame for each."""

STOPPED_BY = {"protocol"}
WITNESS = "len(printed) > 300_000"
WALL_SECONDS = 10.0

body = b'[2,"x",""]'
frame = struct.pack("<I", len(body)) + body
for _ in range(700):
    os.write(3, frame * 500)
