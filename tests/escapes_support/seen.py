"""What a host saw of one attack, and whether that means that the attack reached its aim."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.escapes_support.attack import Attack
from tests.escapes_support.bait import Bait
from toolfold.engines.base import Order
from toolfold.models import Limits, Program, ToolSpec

TOOLS = ("note", "echo", "blob", "wipe")
"""What the host has. A program is granted all but the last."""
GRANTED = tuple(ToolSpec(name=name, python_name=name) for name in TOOLS[:-1])
BLOB = "x" * 1024 * 1024


@dataclass(slots=True)
class Seen:
    """Everything that a witness expression may ask for."""

    printed: str = ""
    printed_before: str = ""
    served: list[tuple[Any, str]] = field(default_factory=list)
    """Id and tool of each call that the host answered."""
    lines: list[Any] = field(default_factory=list)
    """The line that each of these calls came from."""
    largest_argument_bytes: int = 0
    served_after_end: bool = False
    answered_bytes: int = 0
    status: str = ""
    problem: str = ""
    problem_text: str = ""
    value: Any = None
    taped: int = 0
    """Entries that the host keeps for a replay."""
    cut_bytes: tuple[Any, ...] = (0, 0)
    files: dict[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    error: str = ""
    """An exception in the host itself, or `stuck`."""
    descriptors: int = 0
    """How many more the host had open than before, at most."""
    is_alive: bool = False
    """The guest still ran after the host was done with it."""
    bait: Bait | None = None

    def reaches(self, attack: Attack) -> bool:
        """Whether the attack's witness says so."""
        names = {name: getattr(self, name) for name in self.__slots__}
        assert self.bait is not None
        # eval: the expression stands in a file of this corpus.
        return bool(eval(attack.witness, {**names, "SECRET": self.bait.secret, "is_text": is_text}))


def order_for(attack: Attack, bait: Bait, *, is_control: bool, text: str | None = None) -> Order:
    """The attack as an engine takes it: unchecked, because the check is no wall."""
    whole = bait.prelude(is_control=is_control) + (attack.text if text is None else text)
    return Order(
        program=Program(text=whole), tools=GRANTED, limits=Limits(wall_seconds=attack.wall_seconds, **attack.limits)
    )


def is_text(value: Any) -> bool:
    """Whether a string of the guest's can be written anywhere at all."""
    try:
        return isinstance(value, str) and bool(value.encode())
    except UnicodeEncodeError:
        return False


def open_descriptors() -> int:
    """Of this process."""
    return len(os.listdir("/proc/self/fd"))


def descendants(pid: int) -> set[int]:
    """Process ids below `pid`, zombies included."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        parents[int(path.parent.name)] = int(fields[1])
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level}
        found |= level
    return found
