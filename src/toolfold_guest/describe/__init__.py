"""What is in the files of a program: columns and types, sheets, tables, rows. Bounded, and never raises for a file.

Read here, beside the program: a file may be hostile, and the host opens none. Imported only by programs that ask.
"""

import fnmatch
import os
from collections.abc import Callable, Generator
from typing import Any

from toolfold_guest.describe import parquet, tables

MOST_FILES = 100
_KINDS: dict[str, Callable[[str], dict[str, Any]]] = {
    ".csv": tables.csv_file,
    ".tsv": tables.csv_file,
    ".json": tables.json_file,
    ".jsonl": tables.json_lines,
    ".ndjson": tables.json_lines,
    ".xlsx": tables.workbook,
    ".xlsm": tables.workbook,
    ".parquet": parquet.parquet_file,
    ".db": tables.sqlite_file,
    ".sqlite": tables.sqlite_file,
    ".sqlite3": tables.sqlite_file,
}


class Descriptions(list[dict[str, Any]]):
    """A list that can be awaited too: programs do not know which of their helpers are coroutines."""

    def __await__(self) -> Generator[None, None, "Descriptions"]:
        yield from ()
        return self

    def __str__(self) -> str:
        return "\n".join(map(line_of, self))


def describe_files(*names: str) -> Descriptions:
    """Columns and types, sheets, tables and rows of the data files here; of all of them, or of those that fit `names`.

    Reads csv, tsv, json, jsonl, xlsx, parquet and sqlite. Print it for one line per file.
    """
    wanted = [os.path.relpath(name) if os.path.isabs(name) else name for name in map(str, names)]
    found = [path for path in _files() if not wanted or any(fnmatch.fnmatch(path, name) for name in wanted)]
    for name in wanted:
        if not any(sign in name for sign in "*?[") and name not in found:
            raise FileNotFoundError(f"no file {name!r}; there are {', '.join(_files()[:20]) or 'none'}")
    return Descriptions(_describe(path) for path in found[:MOST_FILES])


def _files() -> list[str]:
    found: list[str] = []
    for top, folders, names in os.walk("."):
        folders.sort()
        found += [os.path.relpath(os.path.join(top, name)) for name in sorted(names)]
        if len(found) > MOST_FILES:
            break
    return found


def _describe(path: str) -> dict[str, Any]:
    said: dict[str, Any] = {"name": path, "bytes": os.path.getsize(path)}
    read = _KINDS.get(os.path.splitext(path)[1].lower())
    if read is None:
        return said
    try:
        return said | read(path)
    # Whatever is wrong with a file is a fact about it; the program goes on.
    except Exception as error:  # noqa: BLE001
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return said | {"error": f"cannot be read ({reason})"}


def line_of(said: dict[str, Any]) -> str:
    """One line, for a prompt."""
    parts = [f"{said['name']} ({said['bytes']} bytes)"]
    if "error" in said:
        parts.append(said["error"])
    elif "sheets" in said or "tables" in said:
        inner = said.get("sheets") or said.get("tables") or {}
        kind = "sheet" if "sheets" in said else "table"
        parts.append("; ".join(f"{kind} {name}: {_table(one)}" for name, one in inner.items()))
    elif "columns" in said or "rows" in said:
        parts.append(_table(said))
    elif "type" in said:
        parts.append(str(said["type"]))
    line = ": ".join(part for part in parts if part)
    # Names come from the file, and one file has one line.
    return " ".join(line.split())[:1000]


def _table(one: dict[str, Any]) -> str:
    rows = f"{'at least ' if one.get('more') else ''}{one.get('rows', 0)} rows"
    names = ", ".join(f"{name} {kind}" for name, kind in one.get("columns", {}).items())
    return f"{rows} of {names}" if names else rows
