"""What a frame would cost the host, found by counting bytes before anything is decoded.

Three bytes of an empty list are some seventy in memory, and a walk over millions of values takes seconds. What is
counted here is exact for valid JSON; at the first byte that is not valid the decoder stops anyway.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

LARGE_BYTES: Final = 64 * 1024
"""A smaller frame cannot cost much, whatever is in it."""
MAX_VALUES: Final = 1_000_000
MAX_CONTAINERS: Final = 250_000
FRAME_COST_BYTES: Final = 512
"""Of each frame, for the work that it makes."""
_VALUE_BYTES: Final = 32
_CONTAINER_BYTES: Final = 64

_STEPS: Final = [0] * 256
for _byte, _step in ((b"[", 1), (b"{", 1), (b"]", -1), (b"}", -1)):
    _STEPS[_byte[0]] = _step
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if not _STEPS[byte])


class Weight(NamedTuple):
    """The parts of a frame, not counting what is inside of strings."""

    values: int
    """Commas: one less than its items in each list and object."""
    containers: int
    depth: int

    @property
    def is_too_much(self) -> bool:
        """Whether decoding it would hold up all other programs."""
        return self.values > MAX_VALUES or self.containers > MAX_CONTAINERS

    @property
    def memory_bytes(self) -> int:
        """About what its parts take in memory, besides their characters."""
        return self.values * _VALUE_BYTES + self.containers * _CONTAINER_BYTES


_FAR_TOO_MUCH: Final = Weight(values=MAX_VALUES + 1, containers=0, depth=0)


def weigh(raw: bytes) -> Weight:
    """The weight of a frame; one that is far too heavy is not counted to its end."""
    # An escaped quote would end its string too early. Pairs of backslashes go first: a quote after one is a real end.
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    if plain.count(b'"') > 4 * MAX_VALUES:  # a key and a value for each comma, at most
        return _FAR_TOO_MUCH
    # Every other piece between quotes is outside of strings: brackets and commas in a text count for nothing.
    outside = b"".join(plain.split(b'"')[::2])
    found = Weight(values=outside.count(b","), containers=outside.count(b"[") + outside.count(b"{"), depth=0)
    if found.is_too_much:
        return found
    return found._replace(depth=depth_of(outside))


def depth_of(outside: bytes) -> int:
    """How deeply brackets are nested in a text without strings."""
    # One pass in C over brackets alone; a loop over all bytes would hold up the host for seconds.
    brackets = outside.translate(None, _NOT_BRACKETS)
    return max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
