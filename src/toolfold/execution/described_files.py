"""Files for programs, each with a line for the model on its content, as a guest has read it.

The host opens none of them: a file may be hostile. It reads only what the guest prints, within bounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolfold.engines.base import Died, Ended, Engine, Order, Printed
from toolfold.errors import EngineError
from toolfold.models import File, Limits, Program
from toolfold.program.check import check
from toolfold.sessions import Sessions

MOST_CHARACTERS: Final = 2_000
"""Of what a model is told of all files."""
_LONGEST_LINE: Final = 400
_WALL_SECONDS: Final = 10.0
_HEAD: Final = "Files in the working directory of every program:"
_TEXT: Final = "print(describe_files())"


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedFiles:
    """What every program of an interface finds in its data folder, and what a model is told of it."""

    files: tuple[File, ...] = ()
    lines: tuple[str, ...] = ()
    """One for each file, in their order: its name and size, then columns and types, sheets, tables, rows."""

    @classmethod
    def of(cls, files: Sequence[File] | DescribedFiles) -> DescribedFiles:
        """As they are; of files that no guest has read, names and sizes are told."""
        if isinstance(files, DescribedFiles):
            return files
        return cls(files=tuple(files), lines=tuple(_line(f"{file.name} ({file.size} bytes)") for file in files))

    def files_for(self, session: str, sessions: Sessions) -> tuple[File, ...]:
        """Files for the next program; a session gets them once, and may change them.

        Raises:
            UsageError: together with the session's own they are too large.
        """
        if not session or not self.files:
            return self.files
        existing_names = {file.name for file in sessions.listed(session)}
        missing = [file for file in self.files if file.name not in existing_names]
        if missing:
            sessions.put(session, missing)
        return ()

    def text(self, most_characters: int = MOST_CHARACTERS) -> str:
        """For a prompt: as many lines as fit, and how many files are left out; empty without files."""
        if not self.lines:
            return ""
        lines, room = [_HEAD], most_characters - len(_HEAD)
        for at, line in enumerate(self.lines):
            room -= len(line) + 1
            if room < 0:
                return "\n".join([*lines, f"and {len(self.lines) - at} more; print(describe_files()) shows them"])
            lines.append(line)
        return "\n".join(lines)


async def describe_files(engine: Engine, files: Iterable[File], limits: Limits | None = None) -> DescribedFiles:
    """Describe the files in a guest of the engine; if that fails, only their names and sizes."""
    plain = DescribedFiles.of(tuple(files))
    program = check(_TEXT)
    if not plain.files or not isinstance(program, Program):
        return plain
    limits = limits or Limits()
    order = Order(
        program=program,
        files=plain.files,
        limits=replace(limits, wall_seconds=min(limits.wall_seconds, _WALL_SECONDS)),
    )
    try:
        async with asyncio.timeout(order.limits.wall_seconds):
            printed = await _printed_text(engine, order)
    except (EngineError, TimeoutError):
        return plain
    descriptions = printed.splitlines()
    # Each begins with what is told anyway; a file that the guest did not come to has no other line.
    lines = (
        next((_line(description) for description in descriptions if description.startswith(line)), line)
        for line in plain.lines
    )
    return replace(plain, lines=tuple(lines))


async def _printed_text(engine: Engine, order: Order) -> str:
    """What the program printed; nothing if it did not come to its end, as where an engine lacks `describe_files`."""
    parts: list[str] = []
    async with engine.open(order) as run:
        async for event in run:
            if isinstance(event, Printed):
                parts.append(event.text)
            elif isinstance(event, Ended):
                return "".join(parts) if event.status == "finished" else ""
            elif isinstance(event, Died):
                return ""
    return ""


def _line(text: str) -> str:
    """One line of bounded length: names, of files and of columns, are strangers' words."""
    line = "".join(sign if sign.isprintable() else " " for sign in text)
    return line if len(line) <= _LONGEST_LINE else f"{line[: _LONGEST_LINE - 1]}…"
