"""How much of a text clients show the model, and what of the tools fits into that. Pure; must not know the SDK.

Claude Code cuts descriptions and instructions at 4,096 characters, without a word to anyone; so nothing is
ever longer. What does not fit is left out whole, and the text says how to find it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from toolfold.models import ToolSpec

CHARACTERS: Final = 4_096
OLDER_CHARACTERS: Final = 2_048
"""Claude Code from 2.1.84 to 2.1.234."""
_OLDER: Final = ((2, 1, 84), (2, 1, 234))
_SHORTEST_SIGNATURE: Final = 40
_FIND: Final = 'find them with: await search_tools("what you need")'


def kept_characters(client: str, version: str) -> int:
    """How many characters of a description this client shows the model."""
    numbers = tuple(int(one) for one in re.findall(r"\d{1,9}", version)[:3])
    is_older = client == "claude-code" and _OLDER[0] <= numbers <= _OLDER[1]
    return OLDER_CHARACTERS if is_older else CHARACTERS


def width(text: str) -> int:
    """Characters as clients count them: in UTF-16."""
    return len(text) + sum(character > "\uffff" for character in text)


def fitting(parts: Iterable[str], room: int, *, between: int = 0) -> list[str]:
    """The first parts that fit, with so many characters between two."""
    found: list[str] = []
    for part in parts:
        room -= width(part) + between
        if room < 0:
            break
        found.append(part)
    return found


def tool_listing(specs: Iterable[ToolSpec], room: int) -> tuple[str, bool]:
    """The tools as Python within so many characters, and whether every signature is there.

    Where they do not fit, every tool is named and as many as possible, the shortest ones, have their signature;
    where not even the names fit, the rest is counted.
    """
    # Imported here: the instructions are told first, and need none of it.
    from toolfold.program.stubs import prompt_text  # noqa: PLC0415

    tools = list(specs)
    if len(tools) * _SHORTEST_SIGNATURE <= room:  # what certainly does not fit need not be written to be measured
        text = prompt_text(tools, budget_characters=room)
        if width(text) <= room and all(f"def {spec.python_name}(" in text for spec in tools):
            return text, True
    names = fitting([spec.python_name for spec in tools], room - width(_named([""], len(tools))), between=2)
    if len(names) < len(tools):
        return _named(names, len(tools) - len(names)), False
    return _signatures_and_names(tools, room), False


def _signatures_and_names(tools: Sequence[ToolSpec], room: int) -> str:
    from toolfold.program.stubs import short_text  # noqa: PLC0415 - as above

    sizes = {spec.python_name: width(short_text([spec])) for spec in tools}
    shortest_first = sorted(tools, key=lambda spec: sizes[spec.python_name])

    def text(chosen: int) -> str:
        shown = {spec.python_name for spec in shortest_first[:chosen]}
        others = [spec.python_name for spec in tools if spec.python_name not in shown]
        return short_text([spec for spec in tools if spec.python_name in shown]) + _named(others, 0)

    # Too few, for what has a signature need not be named again; but near, and each try writes all of them.
    left = room - width(_named([spec.python_name for spec in tools], 0))
    chosen = len(fitting(["x" * sizes[spec.python_name] for spec in shortest_first], left, between=1))
    while chosen and width(text(chosen)) > room:
        chosen -= 1
    while chosen < len(tools) and width(text(chosen + 1)) <= room:
        chosen += 1
    return text(chosen)


def _named(names: Sequence[str], more: int) -> str:
    lines = [f"# also there: {', '.join(names)}"] if names else []
    lines += [f"# and {more} more; {_FIND}"] if more else []
    return "".join(f"{line}\n" for line in lines)
