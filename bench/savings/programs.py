"""Programs as a model would write them for calls that are known."""

from collections.abc import Sequence
from typing import Literal

from bench.savings.dependence import Needs, parts
from bench.savings.task import GoldCall

Shows = Literal["all", "last"]
"""What a program prints: every reply, or the last one and those that a later program needs."""


def programs(calls: Sequence[GoldCall], found: Sequence[Needs], shows: Shows) -> list[str]:
    """One text for each part of the turn that a model can write at once."""
    groups = parts(found)
    read_later = {index for need in found for index in need.read}
    return [
        _program(calls, found, group, set(group) if shows == "all" else {group[-1]} | (read_later & set(group)))
        for group in groups
    ]


def _program(calls: Sequence[GoldCall], found: Sequence[Needs], group: Sequence[int], shown: set[int]) -> str:
    passed_on = {source for index in group for source, _ in found[index].as_is.values()}
    lines = []
    for index in group:
        call = f"await {calls[index].name}({_arguments(calls[index], found[index], group)})"
        if index in passed_on:
            lines.append(f"r{index + 1} = {call}")
            lines += [f"print(r{index + 1})"] if index in shown else []
        else:
            lines.append(f"print({call})" if index in shown else call)
    return "\n".join(lines)


def _arguments(call: GoldCall, need: Needs, group: Sequence[int]) -> str:
    written = []
    for name, value in call.arguments.items():
        source = need.as_is.get(name)
        # A reply to an earlier program has no name here; the model has read it and writes the value.
        text = _path(*source) if source is not None and source[0] in group else repr(value)
        written.append(f"{name}={text}")
    return ", ".join(written)


def _path(index: int, path: tuple[str | int, ...]) -> str:
    return f"r{index + 1}" + "".join(f"[{step!r}]" for step in path)
