"""What clients were told, what the tools did, and whether the two can both be true. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

UNKNOWN = "whether it ran is not known"
"""In a program's error: the host was killed while a call was open, and says so instead of making it again."""

KILLED = "the kernel stopped the program"
"""A guest that is killed looks like one that took too much memory: its program has ended, and the client hears it."""

End = Literal["completed", "unknown", "killed", "open", "lost"]


@dataclass(slots=True)
class Operation:
    """One program of one client, from its start to the last answer that the client got."""

    name: str
    effects: int
    """How many calls with an effect its program makes; the n-th is `name n`."""
    replies: list[str] = field(default_factory=list)
    """What the client answered to its own tools, in order; the program prints all of it."""
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Bodies of all answers with status 200, by the request that they answer."""
    end: End = "open"
    stdout: str = ""
    said: str = ""
    """The last refusal, where it was lost."""


def effect(name: str, number: int) -> str:
    """One line in the record of what the tools did."""
    return f"{name}-{number}"


def violations(operations: Sequence[Operation], done: Iterable[str]) -> list[str]:
    """Everything that contradicts what `docs/reliability.md` promises, one line each."""
    times = Counter(done)
    found = [f"doubled call: {line} was done {count} times" for line, count in times.items() if count > 1]
    for one in operations:
        found += _of_effects(one, times)
        found += _of_answers(one)
        if one.end == "lost":
            found.append(f"lost execution: {one.name} had an acknowledged start, then {one.said!r}")
    return found


def _of_effects(one: Operation, times: Counter[str]) -> list[str]:
    if one.end != "completed":
        return []
    found = [
        f"lost call: {effect(one.name, number)} was answered, and never done"
        for number in range(1, one.effects + 1)
        if not times[effect(one.name, number)]
    ]
    found += [
        f"lost reply: {one.name} was given {reply!r} and printed {one.stdout!r}"
        for reply in one.replies
        if reply not in one.stdout
    ]
    return found


def _of_answers(one: Operation) -> list[str]:
    return [
        f"second answer: {one.name} got different answers to {request}"
        for request, bodies in one.answers.items()
        if any(body != bodies[0] for body in bodies)
    ]
