"""Column types of CSV, JSON and SQLite tables, from their values or from the database itself."""

import csv
import datetime
import itertools
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

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
    distinct = set(kinds)
    # A gap changes what a program has to do with a column, so it is part of the type.
    gap = "?" if "" in distinct else ""
    distinct.discard("")
    if distinct == {"int", "float"}:
        distinct = {"float"}
    if not distinct:
        return "empty"
    return "|".join(sorted(distinct, key=lambda kind: _ORDER.index(kind) if kind in _ORDER else len(_ORDER))) + gap


def columns_of(header: Sequence[Any], rows: Sequence[Sequence[Any]]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for at, name in enumerate(header[:MOST_COLUMNS]):
        key = str(name) if name not in (None, "") else f"column {at + 1}"
        kinds[key] = merged(type_of(row[at] if at < len(row) else None) for row in rows)
    return kinds


def sqlite_file(path: str) -> dict[str, Any]:
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


# ----------------------------------------------------------------------------------------------------
# Tables and records in text files.

_MOST_BYTES = 64 * 1024 * 1024
_SAMPLE = 64 * 1024


def csv_file(path: str) -> dict[str, Any]:
    """The first row has the names, unless it looks like data."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        sample = file.read(_SAMPLE)
        file.seek(0)
        dialect = _dialect(sample, path)
        reader = csv.reader(file, dialect)
        header = next(reader, [])
        rows = list(itertools.islice(reader, MOST_ROWS))
        counted = len(rows) + sum(1 for _ in itertools.islice(reader, MOST_COUNTED))
    # A file without names: the first row would be lost as data.
    if header and all(type_of(cell) in ("int", "float") for cell in header):
        rows, counted = [header, *rows], counted + 1
        header = [f"column {at + 1}" for at in range(len(header))]
    description: dict[str, Any] = {"rows": counted, "columns": columns_of(header, rows)}
    if dialect.delimiter != ",":
        description["delimiter"] = dialect.delimiter
    return description | ({"more": True} if counted > MOST_COUNTED else {})


def _dialect(sample: str, path: str) -> Any:
    # Of the first lines only: the sniffer takes long for quotes in a large text.
    lines = "\n".join(sample.splitlines()[:20])
    try:
        return csv.Sniffer().sniff(lines[:8192], delimiters=",;\t|")
    except csv.Error:
        return csv.excel_tab if path.endswith(".tsv") else csv.excel


def json_file(path: str) -> dict[str, Any]:
    """A list of records as a table; of anything else its keys and their types."""
    with open(path, encoding="utf-8-sig") as file:
        text = file.read(_MOST_BYTES + 1)
    if len(text) > _MOST_BYTES:
        return {"type": "json", "error": f"larger than {_MOST_BYTES} characters"}
    # Not `json.loads`, which is lenient for replies.
    value = json.JSONDecoder().decode(text.strip() or "null")
    if isinstance(value, list):
        return _records(value)
    if isinstance(value, dict):
        keys = {str(key): _shape(item) for key, item in itertools.islice(value.items(), MOST_COLUMNS)}
        return {"type": "dict of " + ", ".join(f"{key} {kind}" for key, kind in keys.items()), "keys": keys}
    return {"type": type(value).__name__}


def json_lines(path: str) -> dict[str, Any]:
    with open(path, encoding="utf-8-sig") as file:
        lines = (line for line in file if not line.isspace())
        records = [json.JSONDecoder().decode(line.strip()) for line in itertools.islice(lines, MOST_ROWS)]
        counted = len(records) + sum(1 for _ in itertools.islice(lines, MOST_COUNTED))
    return _records(records) | {"rows": counted} | ({"more": True} if counted > MOST_COUNTED else {})


def _records(values: list[Any]) -> dict[str, Any]:
    sample = values[:MOST_ROWS]
    if not sample or not all(isinstance(record, dict) for record in sample):
        return {"type": f"list of {merged(map(_kind, sample))}", "rows": len(values)}
    names = dict.fromkeys(str(key) for record in sample for key in record)
    kinds = {
        name: merged(_kind(record.get(name)) for record in sample) for name in itertools.islice(names, MOST_COLUMNS)
    }
    return {"rows": len(values), "columns": kinds}


def _kind(value: Any) -> str:
    # A number in quotes is a text here: the file says so.
    return "str" if isinstance(value, str) and type_of(value) != "date" else type_of(value)


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value)}"
    return f"dict of {len(value)}" if isinstance(value, dict) else _kind(value) or "null"


# ----------------------------------------------------------------------------------------------------
# Sheets of an Excel workbook, from the XML in it: openpyxl takes a second to import, and may not be there.

_MAX_WORKBOOK_BYTES = 256 * 1024 * 1024
"""Of one part, unpacked: a small file may unpack to anything."""
_MOST_STRINGS = 200_000
_DATES = frozenset([*range(14, 23), *range(45, 48)])
"""Built-in formats of numbers that are dates or times."""
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


def workbook(path: str) -> dict[str, Any]:
    """Each sheet with its rows; the first row has the names of the columns."""
    with zipfile.ZipFile(path) as archive:
        strings = _strings(archive)
        dates = _date_styles(archive)
        sheets = {name: _sheet(archive, part, strings, dates) for name, part in _sheets(archive)}
    return {"sheets": sheets}


def _sheets(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    parts = {
        element.get("Id"): element.get("Target", "")
        for element in _all(archive, "xl/_rels/workbook.xml.rels", "Relationship")
    }
    for at, element in enumerate(_all(archive, "xl/workbook.xml", "sheet")):
        if at < MOST_TABLES:
            target = parts.get(element.get(_RELATION), "")
            yield element.get("name", ""), target[1:] if target.startswith("/") else f"xl/{target}"


def _sheet(archive: zipfile.ZipFile, part: str, strings: list[str], dates: set[int]) -> dict[str, Any]:
    rows: list[list[Any]] = []
    count = 0
    for row in _all(archive, part, "row"):
        cells = _row(row, strings, dates) if len(rows) <= MOST_ROWS else [1]
        if any(cell is not None for cell in cells):
            count += 1
            if len(rows) <= MOST_ROWS:
                rows.append(cells)
        if count > MOST_COUNTED:
            break
    header, *data = rows or [[]]
    return {"rows": max(count - 1, 0), "columns": columns_of(header, data)}


def _row(row: ElementTree.Element, strings: list[str], dates: set[int]) -> list[Any]:
    cells: list[Any] = []
    for cell in row:
        # Empty cells are left out of a row, so each says where it is.
        at = _column(cell.get("r", "")) if cell.get("r") else len(cells)
        if at >= MOST_COLUMNS:
            break
        cells += [None] * (at - len(cells))
        cells.append(_cell(cell, strings, dates))
    return cells


def _cell(cell: ElementTree.Element, strings: list[str], dates: set[int]) -> Any:
    kind = cell.get("t", "n")
    text = "".join(element.text or "" for element in cell.iter() if element.tag.endswith(("}v", "}t")))
    if not text:
        return None
    if kind == "s":
        at = int(text)
        return strings[at] if at < len(strings) else "..."
    if kind == "b":
        return text == "1"
    if kind != "n":
        # Already a text, or the date of a formula.
        return "2000-01-01" if kind == "d" else text
    if int(cell.get("s", "0")) in dates:
        return "2000-01-01"
    number = float(text)
    return int(number) if number.is_integer() and "." not in text else number


def _column(reference: str) -> int:
    at = 0
    for sign in reference:
        if not sign.isalpha():
            break
        at = at * 26 + ord(sign.upper()) - 64
    return max(at - 1, 0)


def _strings(archive: zipfile.ZipFile) -> list[str]:
    strings: list[str] = []
    for element in _all(archive, "xl/sharedStrings.xml", "si"):
        strings.append("".join(part.text or "" for part in element.iter() if part.tag.endswith("}t"))[:200])
        if len(strings) >= _MOST_STRINGS:
            break
    return strings


def _date_styles(archive: zipfile.ZipFile) -> set[int]:
    """Numbers of the styles that show a number as a date."""
    custom = {
        int(element.get("numFmtId", "0"))
        for element in _all(archive, "xl/styles.xml", "numFmt")
        if re.search(r"[dmyhs]", re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", element.get("formatCode", "")), re.IGNORECASE)
    }
    kinds = [
        int(element.get("numFmtId", "0")) for style in _all(archive, "xl/styles.xml", "cellXfs") for element in style
    ]
    return {at for at, kind in enumerate(kinds) if kind in _DATES or kind in custom}


def _all(archive: zipfile.ZipFile, part: str, name: str) -> Iterator[ElementTree.Element]:
    """Every element of that name, one at a time; none if there is no such part."""
    try:
        info = archive.getinfo(part)
    except KeyError:
        return
    # The size that the archive claims; `zipfile` stops reading there.
    if info.file_size > _MAX_WORKBOOK_BYTES:
        raise ValueError(f"{part} unpacks to {info.file_size} bytes")
    with archive.open(info) as file:
        # S314: inside the jail, where a bomb of entities ends with the program's memory.
        for _, element in ElementTree.iterparse(file):  # noqa: S314
            if element.tag.rpartition("}")[2] == name:
                yield element
                # A sheet of a million rows must not be in memory at once.
                element.clear()
