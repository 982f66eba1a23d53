"""Tables and records in text files."""

import csv
import itertools
import json
from typing import Any

from toolfold_guest.described.columns import MOST_COLUMNS, MOST_COUNTED, MOST_ROWS, columns_of, merged, type_of

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
    said: dict[str, Any] = {"rows": counted, "columns": columns_of(header, rows)}
    if dialect.delimiter != ",":
        said["delimiter"] = dialect.delimiter
    return said | ({"more": True} if counted > MOST_COUNTED else {})


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
        keys = {str(key): _shape(one) for key, one in itertools.islice(value.items(), MOST_COLUMNS)}
        return {"type": "dict of " + ", ".join(f"{key} {kind}" for key, kind in keys.items()), "keys": keys}
    return {"type": type(value).__name__}


def json_lines(path: str) -> dict[str, Any]:
    """One record in each line."""
    with open(path, encoding="utf-8-sig") as file:
        lines = (line for line in file if not line.isspace())
        records = [json.JSONDecoder().decode(line.strip()) for line in itertools.islice(lines, MOST_ROWS)]
        counted = len(records) + sum(1 for _ in itertools.islice(lines, MOST_COUNTED))
    return _records(records) | {"rows": counted} | ({"more": True} if counted > MOST_COUNTED else {})


def _records(values: list[Any]) -> dict[str, Any]:
    sample = values[:MOST_ROWS]
    if not sample or not all(isinstance(one, dict) for one in sample):
        return {"type": f"list of {merged(map(_kind, sample))}", "rows": len(values)}
    names = dict.fromkeys(str(key) for one in sample for key in one)
    kinds = {name: merged(_kind(one.get(name)) for one in sample) for name in itertools.islice(names, MOST_COLUMNS)}
    return {"rows": len(values), "columns": kinds}


def _kind(value: Any) -> str:
    # A number in quotes is a text here: the file says so.
    return "str" if isinstance(value, str) and type_of(value) != "date" else type_of(value)


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"list of {len(value)}"
    return f"dict of {len(value)}" if isinstance(value, dict) else _kind(value) or "null"
