"""The description of `execute_program`, made of the door's texts and the tools that there are. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from toolfold.doors.mcp.budget import OVERVIEW_CHARACTERS, SAFE_CHARACTERS
from toolfold.doors.mcp.texts import DESCRIPTION, not_reachable, still_connecting
from toolfold.execution.described_files import DescribedFiles
from toolfold.models import Json, ToolSpec
from toolfold.prompts.catalog import HEADER, dense_within
from toolfold.prompts.wording import width


@dataclass(frozen=True, slots=True)
class Listed:
    """One server, as the description tells of it."""

    name: str
    state: str
    """`connecting`, `ready` or `failed`."""
    tools: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of the tools beside their definitions, the same for all of a client's session."""

    used: Mapping[str, int] = field(default_factory=dict)
    """By tool name, how often programs called it lately."""
    learned: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    """By tool name, the schema of the replies seen so far."""


def program_description(
    servers: Sequence[Listed], specs: Sequence[ToolSpec], *, max_characters: int = SAFE_CHARACTERS,
    known: Known | None = None, files: DescribedFiles | None = None,
) -> tuple[str, bool]:  # fmt: skip
    """Of `execute_program`: the rules, its files, then what there is to call; and whether every signature is there."""
    known = known or Known()
    parts = [DESCRIPTION, *_absent(servers, max_characters // 4)]
    if files is not None and files.files:
        parts.append(files.text(max_characters // 4))
    if not specs:
        return "\n\n".join(parts), True
    parts.append(HEADER)
    told = dense_within(
        specs,
        max_characters - width("\n\n".join(parts)) - 1,
        overview=OVERVIEW_CHARACTERS,
        used=known.used,
        learned=known.learned,
    )
    return "\n\n".join(parts) + f"\n{told.text}" * bool(told.text), told.is_all


def _absent(servers: Sequence[Listed], room: int) -> list[str]:
    """Servers whose tools are not among those listed, and why."""
    late = [one.name for one in servers if one.state == "connecting" and not one.tools]
    gone = [one.name for one in servers if one.state == "failed"]
    lines = []
    if late:
        lines.append(still_connecting(_fitting(late, room)))
    if gone:
        lines.append(not_reachable(_fitting(gone, room)))
    return ["\n".join(lines)] if lines else []


def _fitting(names: Sequence[str], room: int) -> str:
    shown: list[str] = []
    for name in names:
        room -= width(name) + 2
        if room < 0:
            return ", ".join([*shown, f"and {len(names) - len(shown)} more"])
        shown.append(name)
    return ", ".join(shown)
