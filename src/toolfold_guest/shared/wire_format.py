"""Wire format between host and guest: framing and message kinds, imported by both sides.

A frame is a little-endian 32-bit length and that many bytes.

Guest to host, JSON arrays, because the host trusts nothing here and JSON can be parsed strictly:
    [CALLS,   stdout, stderr, [[id, tool index, arguments, line, within], ...], replies seen or -1, tape]
                 `within` is the call of the saved program that makes this one; left out in any other program
    [PRINTED, stdout, stderr]
    [ENDED,   stdout, stderr, status, value, error, [stdout bytes cut, stderr bytes cut], message, hints, unmade]
                 the last two are left out where both are empty
    [UNPACKED]   the files that came with the start are all in the data folder; said only if there were any
Host to guest, `marshal`, because the host is trusted and nothing decodes faster:
    (PROGRAM, text, tools)   a program to make ready; `tools` are a message of their own, which the host keeps
    (START, options)         run it
    (REPLY, call id, ok, value or message, has media)
    (HOLD,)      stand still: the execution is paused, and its timers with it
    (RELEASE, seconds)   go on; so much of the pause counts for the program's timers
"""

import struct
from typing import Final

CALLS: Final = 1
PRINTED: Final = 2
ENDED: Final = 3

PROGRAM: Final = 4
START: Final = 5
REPLY: Final = 6
HOLD: Final = 7
RELEASE: Final = 8
UNPACKED: Final = 9

MAX_LINE: Final = 10_000_000
"""The largest line number that a call may come from; 0 is an unknown one."""
MAX_ERROR_CHARACTERS: Final = 256 * 1024
"""Of a traceback or a message, each; the guest leaves out the middle of a longer one."""

HEADER: Final = struct.Struct("<I")
PLAIN: Final = 2
"""The version of `marshal` for a program, its tools and its start: strings are not interned. A guest has a large
table of interned strings that it shares with its zygote, and would copy three pages of it for each new one."""

# A JSON object whose only key starts with NUL is ours: bytes and media have no JSON form.
# A program's own key that starts with NUL gets one more NUL in front.
BYTES_KEY: Final = "\0b"
MEDIA_KEY: Final = "\0m"


def text_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
