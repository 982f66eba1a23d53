"""Messages between the host and a worker of WebAssembly instances, on the stream of one slot.

Each is a header and a body. Standard library only: the worker loads nothing else of the host.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

HEADER: Final = struct.Struct("<IB")
"""Length of the body, and the kind."""
OPEN: Final = 1
"""Limits of the program that follows, as JSON."""
FRAMES: Final = 2
"""Whole frames for the guest."""
FINISH: Final = 3
"""The program is over: whether its files are wanted, and whether its session keeps the instance, as JSON."""
STOP: Final = 4
"""Cut the program now, whatever it does."""
READY: Final = 129
"""An instance waits in this slot."""
GUEST_FRAMES: Final = 130
"""What the guest sends, as it is."""
DIED: Final = 131
"""The guest will not speak again, and why, as JSON."""
FILES: Final = 132
"""Regular files of the data folder."""
GONE: Final = 255
"""Never sent: what a host hears when the worker has ended."""

_COUNT: Final = struct.Struct("<I")
_SIZE: Final = struct.Struct("<Q")


def message(kind: int, body: bytes = b"") -> bytes:
    return HEADER.pack(len(body), kind) + body


def encode_files(files: Mapping[str, bytes | bytearray]) -> bytes:
    parts = [_COUNT.pack(len(files))]
    for name, data in files.items():
        encoded = name.encode("utf-8", "surrogateescape")
        parts += (_COUNT.pack(len(encoded)), encoded, _SIZE.pack(len(data)), bytes(data))
    return b"".join(parts)


def decode_files(body: bytes) -> dict[str, bytes]:
    """Raises `ValueError` or `struct.error` for anything else than `encode_files` makes."""
    files, position = {}, _COUNT.size
    for _ in range(_COUNT.unpack_from(body)[0]):
        end = position + _COUNT.size + _COUNT.unpack_from(body, position)[0]
        name = body[position + _COUNT.size : end].decode("utf-8", "surrogateescape")
        start = end + _SIZE.size
        position = start + _SIZE.unpack_from(body, end)[0]
        if position > len(body):
            raise ValueError("files that are cut off")
        files[name] = body[start:position]
    return files
