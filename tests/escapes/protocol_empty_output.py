"""Sends output without a character, which no count of characters sees."""

STOPPED_BY = {"protocol"}
WITNESS = "'REACHED' in printed"

body = b'[2,"",""]'
frame = struct.pack("<I", len(body)) + body
for _ in range(200):
    os.write(3, frame * 500)
send([2, "REACHED", ""])
