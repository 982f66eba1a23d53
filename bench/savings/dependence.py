"""Which calls of a turn a model cannot write before it has read an earlier reply.

An argument that stands in an earlier reply of the same turn makes the call depend on it, unless the model
knew the value before: from the user, from earlier turns, or from a call that it wrote itself. What only
the order of calls decides (first `cd`, then `ls`) is no dependence: requests carry calls in order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.savings.task import GoldCall

_SHORTEST = 3
"""Shorter texts and truth values stand everywhere by chance."""

Path = tuple[str | int, ...]


@dataclass(slots=True)
class Needs:
    """What one call takes from earlier replies of its turn."""

    as_is: dict[str, tuple[int, Path]] = field(default_factory=dict)
    """By argument: the call whose reply has the value itself, and where. A program can pass it on."""
    read: set[int] = field(default_factory=set)
    """Calls whose replies have a value only within a text: a model has to read them."""

    @property
    def calls(self) -> set[int]:
        """All calls whose replies must be there first."""
        return self.read | {call for call, _ in self.as_is.values()}


def needs(calls: Sequence[GoldCall], replies: Sequence[Any], known: str) -> list[Needs]:
    """For each call of a turn; `known` is all text that the model has read before it."""
    found = []
    for index, call in enumerate(calls):
        need = Needs()
        written = "\n".join(str(value) for earlier in calls[:index] for value in _leaves(earlier.arguments))
        for argument, value in call.arguments.items():
            for leaf in _leaves(value):
                if _is_telling(leaf) and str(leaf) not in known and str(leaf) not in written:
                    _look(need, argument, value, leaf, replies[:index])
        found.append(need)
    return found


def waves(found: Sequence[Needs]) -> list[list[int]]:
    """Calls that can go out together, in order: a new request wherever a reply is needed that is not there yet."""
    requests: list[list[int]] = []
    for index, need in enumerate(found):
        if not requests or need.calls & set(requests[-1]):
            requests.append([])
        requests[-1].append(index)
    return requests


def parts(found: Sequence[Needs]) -> list[list[int]]:
    """Calls that one program can make: a new one only where a model has to read a reply first."""
    return waves([Needs(read=need.read) for need in found])


def _look(need: Needs, argument: str, value: Any, leaf: Any, replies: Sequence[Any]) -> None:
    for index in reversed(range(len(replies))):
        for path, known in _paths(replies[index]):
            if type(known) is type(value) and known == value:
                need.as_is[argument] = (index, path)
                return
    for index in reversed(range(len(replies))):
        if any(str(leaf) == str(known) or _is_within(leaf, known) for _, known in _paths(replies[index])):
            need.read.add(index)
            return


def _is_within(leaf: Any, text: Any) -> bool:
    return isinstance(text, str) and str(leaf) in text


def _is_telling(leaf: Any) -> bool:
    return leaf is not None and not isinstance(leaf, bool) and len(str(leaf)) >= _SHORTEST


def _leaves(value: Any) -> Iterator[Any]:
    yield from (leaf for _, leaf in _paths(value))


def _paths(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))
    else:
        yield path, value
