"""What clients were told, what the tools did, and whether the two can both be true. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

UNKNOWN = ("whether it ran is not known", "may have been called with these arguments")
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
    """The last refusal, where it was lost; the request, where that was never answered."""


@dataclass(slots=True)
class Session:
    """Files that a session must have, and those that it had in the end."""

    name: str
    uploaded: dict[str, str] = field(default_factory=dict)
    """Text by name, of uploads that were acknowledged."""
    left: dict[str, str] = field(default_factory=dict)
    """The same of files that programs wrote which completed."""
    found: dict[str, str] | None = None
    """`None` where it could not be read."""


def effect(name: str, number: int) -> str:
    """One line in the record of what the tools did."""
    return f"{name}-{number}"


def violations(
    operations: Sequence[Operation], done: Iterable[str], sessions: Sequence[Session] = (), broken: Iterable[str] = ()
) -> list[str]:
    """Everything that contradicts what `docs/reliability.md` promises, one line each."""
    times = Counter(done)
    found = [f"doubled call: {line} was done {count} times" for line, count in times.items() if count > 1]
    for one in operations:
        found += _of_effects(one, times)
        found += _of_answers(one)
        if one.end == "lost":
            found.append(f"lost execution: {one.name} had an acknowledged start, then {one.said!r}")
        if one.end == "open":
            found.append(f"never answered: {one.name}, {one.said}")
    for session in sessions:
        found += _of_files(session)
    found += [f"not 503: {request} was answered with 500" for request in broken]
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
        f"second answer: {one.name} got {bodies[0]!r} to {request}, then {body!r}"
        for request, bodies in one.answers.items()
        for body in bodies
        if body != bodies[0]
    ]


def _of_files(session: Session) -> list[str]:
    if session.found is None:
        return [f"never answered: what is in session {session.name}"]
    return [
        *_missing("lost upload", session.name, session.uploaded, session.found),
        *_missing("wiped file", session.name, session.left, session.found),
    ]


def _missing(what: str, session: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    return [
        f"{what}: {session}/{name} is {found[name]!r}, not {text!r}"
        if name in found
        else f"{what}: {session}/{name} is not there"
        for name, text in wanted.items()
        if found.get(name) != text
    ]
