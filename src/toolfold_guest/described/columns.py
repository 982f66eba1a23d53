"""Types of columns, from the values in them; and the tables of a SQLite file, which tells them itself."""

import datetime
import re
from collections.abc import Iterable, Sequence
from typing import Any

MOST_ROWS = 1000
"""Looked at for the types."""
MOST_COLUMNS = 200
MOST_TABLES = 50
MOST_COUNTED = 2_000_000
_MOST_STEPS = 20_000_000
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_ORDER = ("int", "float", "bool", "date", "str", "list", "dict")


def type_of(value: Any) -> str:
    """Of one value; empty for none."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return type(value).__name__
    if isinstance(value, datetime.date | datetime.datetime):
        return "date"
    return _type_of_text(value) if isinstance(value, str) else type(value).__name__


def _type_of_text(text: str) -> str:
    if _INTEGER.fullmatch(text):
        # A code such as 007 is no number: to read it as one loses its zeros.
        return "str" if len(text) > 1 and text[0] == "0" else "int"
    if _NUMBER.fullmatch(text):
        return "float"
    if text.lower() in ("true", "false"):
        return "bool"
    return "date" if _DATE.fullmatch(text) else "str"


def merged(kinds: Iterable[str]) -> str:
    """The type of a column with values of these types; `?` marks that some are missing."""
    seen = set(kinds)
    # A gap changes what a program has to do with a column, so it is part of the type.
    gap = "?" if "" in seen else ""
    seen.discard("")
    if seen == {"int", "float"}:
        seen = {"float"}
    if not seen:
        return "empty"
    return "|".join(sorted(seen, key=lambda kind: _ORDER.index(kind) if kind in _ORDER else len(_ORDER))) + gap


def columns_of(header: Sequence[Any], rows: Sequence[Sequence[Any]]) -> dict[str, str]:
    """Names and types."""
    kinds: dict[str, str] = {}
    for at, name in enumerate(header[:MOST_COLUMNS]):
        key = str(name) if name not in (None, "") else f"column {at + 1}"
        kinds[key] = merged(type_of(row[at] if at < len(row) else None) for row in rows)
    return kinds


def sqlite_file(path: str) -> dict[str, Any]:
    """Tables and views, with the types that they declare."""
    import sqlite3  # noqa: PLC0415  # few programs have such a file

    address = "file:" + "".join(f"%{ord(sign):02x}" if sign in "?#%" else sign for sign in path)
    connection = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
    steps = [0]

    def count() -> bool:
        steps[0] += 100_000
        return steps[0] > _MOST_STEPS

    # Read-only and without a journal: the file is left as it was, and no other appears beside it.
    try:
        # A view may be a loop without end.
        connection.set_progress_handler(count, 100_000)
        query = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%' order by 1"
        names = [name for (name,) in connection.execute(query).fetchmany(MOST_TABLES)]
        return {"tables": {name: _sqlite_table(connection, name) for name in names}}
    finally:
        connection.close()


def _sqlite_table(connection: Any, name: str) -> dict[str, Any]:
    quoted = '"' + name.replace('"', '""') + '"'
    rows = connection.execute(f"select count(*) from (select 1 from {quoted} limit {MOST_COUNTED})").fetchone()[0]  # noqa: S608
    declared = connection.execute(f"pragma table_info({quoted})").fetchmany(MOST_COLUMNS)
    table = {"rows": rows, "columns": {row[1]: (row[2] or "any").lower() for row in declared}}
    return table | ({"more": True} if rows == MOST_COUNTED else {})
