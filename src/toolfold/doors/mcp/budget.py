"""How much of a description each client shows the model. Data, with its evidence; must not know the SDK.

A client that cuts a text does so without a word to anyone. So no text of this door is longer than what the client
that asks keeps; what does not fit is left out by us, and the text says how to find it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

Version: TypeAlias = tuple[int, ...]

OVERVIEW_CHARACTERS: Final = 1_200
"""For the tools where not every signature fits: they must be searched for anyway, and every request pays for it."""


@dataclass(frozen=True, slots=True)
class Cap:
    """What some versions of one client keep of a description and of the instructions."""

    client: str
    """As it calls itself in the handshake."""
    first: Version
    last: Version
    characters: int
    evidence: str


CAPS: Final = (
    Cap("claude-code", (2, 1, 84), (2, 1, 234), 2_048, "https://github.com/anthropics/claude-code/issues/41593"),
    Cap("claude-code", (2, 1, 235), (999,), 4_096, "measured with 2.1.325: make test NAME=claude"),
)
SAFE_CHARACTERS: Final = 4_096
"""For clients that nobody has measured."""


def kept_characters(client: str, version: str) -> int:
    """How many characters of a description this client shows the model."""
    numbers = tuple(int(one) for one in re.findall(r"\d{1,9}", version)[:3])
    caps = (cap.characters for cap in CAPS if cap.client == client and cap.first <= numbers <= cap.last)
    return next(caps, SAFE_CHARACTERS)
