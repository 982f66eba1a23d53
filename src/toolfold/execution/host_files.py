"""A hint for programs that open a file of the host by its name: they see the data folder and nothing else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from toolfold.models import Begun, Problem

_NOT_FOUND: Final = re.compile(
    r"FileNotFoundError: \[Errno 2\] No such file or directory: (?P<name>'[^']+'|\"[^\"]+\")"
)
_WRITES: Final = re.compile(r"""["'][rbt]*[wax+][rbt+]*["']""")
_MOST_NAMES: Final = 5
_HOW: Final = {
    "cli": "--file {name} puts it there",
    "library": "files=[File(name=..., data=...)] of run() puts one there",
    "http": "name it under 'files' of the request, after an upload",
    "mcp": "read it with a tool",
}
"""By the door that the program came through; others have their own ways."""


def host_file_hints(problem: Problem, begun: Begun) -> tuple[str, ...]:
    """At most one: where a program ended because a file that it wanted to read is not in the data folder."""
    if problem.kind != "exception":
        return ()
    found = _NOT_FOUND.match(problem.message)
    if found is None or _WRITES.search(problem.source or ""):
        return ()
    how = _HOW.get(begun.door, "")
    there = sorted(file.name for file in begun.files)
    more = ", …" if len(there) > _MOST_NAMES else ""
    has = f"has {', '.join(there[:_MOST_NAMES])}{more}" if there else "is empty"
    said = f"{found['name']} is not in the data folder, which {has}; programs do not see files of the host"
    return (f"{said}; {how.format(name=found['name'][1:-1])}" if how else said,)
