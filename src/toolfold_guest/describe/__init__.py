"""Descriptions of data files: columns, types, sheets, tables, rows. Bounded; no file makes it raise.

Read here, beside the program: a file may be hostile, and the host opens none. Imported only by programs that ask.
"""

import fnmatch
import os
from collections.abc import Callable, Generator
from typing import Any

from toolfold_guest.describe import parquet, tables

MOST_FILES = 100
_KINDS: dict[str, Callable[[str], dict[str, Any]]] = {
    ".csv": tables.csv_file, ".tsv": tables.csv_file, ".json": tables.json_file, ".jsonl": tables.json_lines,
    ".ndjson": tables.json_lines, ".xlsx": tables.workbook, ".xlsm": tables.workbook, ".parquet": parquet.parquet_file,
    ".db": tables.sqlite_file, ".sqlite": tables.sqlite_file, ".sqlite3": tables.sqlite_file,
}  # fmt: skip


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
    patterns = [os.path.relpath(name) if os.path.isabs(name) else name for name in map(str, names)]
    paths = [path for path in _files() if not patterns or any(fnmatch.fnmatch(path, name) for name in patterns)]
    for name in patterns:
        if not any(sign in name for sign in "*?[") and name not in paths:
            raise FileNotFoundError(f"no file {name!r}; there are {', '.join(_files()[:20]) or 'none'}")
    return Descriptions(_describe(path) for path in paths[:MOST_FILES])


def _files() -> list[str]:
    paths: list[str] = []
    for top, folders, names in os.walk("."):
        folders.sort()
        paths += [os.path.relpath(os.path.join(top, name)) for name in sorted(names)]
        if len(paths) > MOST_FILES:
            break
    return paths


def _describe(path: str) -> dict[str, Any]:
    description: dict[str, Any] = {"name": path, "bytes": os.path.getsize(path)}
    read = _KINDS.get(os.path.splitext(path)[1].lower())
    if read is None:
        return description
    try:
        return description | read(path)
    # Whatever is wrong with a file is a fact about it; the program goes on.
    except Exception as error:  # noqa: BLE001
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return description | {"error": f"cannot be read ({reason})"}


def line_of(description: dict[str, Any]) -> str:
    parts = [f"{description['name']} ({description['bytes']} bytes)"]
    if "error" in description:
        parts.append(description["error"])
    elif "sheets" in description or "tables" in description:
        inner = description.get("sheets") or description.get("tables") or {}
        kind = "sheet" if "sheets" in description else "table"
        parts.append("; ".join(f"{kind} {name}: {_table(table)}" for name, table in inner.items()))
    elif "columns" in description or "rows" in description:
        parts.append(_table(description))
    elif "type" in description:
        parts.append(str(description["type"]))
    line = ": ".join(part for part in parts if part)
    # Names come from the file, and one file has one line.
    return " ".join(line.split())[:1000]


def _table(table: dict[str, Any]) -> str:
    rows = f"{'at least ' if table.get('more') else ''}{table.get('rows', 0)} rows"
    names = ", ".join(f"{name} {kind}" for name, kind in table.get("columns", {}).items())
    return f"{rows} of {names}" if names else rows
