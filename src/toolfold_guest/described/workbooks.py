"""Sheets of an Excel workbook, from the XML in it: openpyxl takes a second to import, and may not be there."""

import re
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from toolfold_guest.described.columns import MOST_COLUMNS, MOST_COUNTED, MOST_ROWS, MOST_TABLES, columns_of

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
        one.get("Id"): one.get("Target", "") for one in _all(archive, "xl/_rels/workbook.xml.rels", "Relationship")
    }
    for at, one in enumerate(_all(archive, "xl/workbook.xml", "sheet")):
        if at < MOST_TABLES:
            target = parts.get(one.get(_RELATION), "")
            yield one.get("name", ""), target[1:] if target.startswith("/") else f"xl/{target}"


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
    text = "".join(one.text or "" for one in cell.iter() if one.tag.endswith(("}v", "}t")))
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
    found: list[str] = []
    for one in _all(archive, "xl/sharedStrings.xml", "si"):
        found.append("".join(part.text or "" for part in one.iter() if part.tag.endswith("}t"))[:200])
        if len(found) >= _MOST_STRINGS:
            break
    return found


def _date_styles(archive: zipfile.ZipFile) -> set[int]:
    """Numbers of the styles that show a number as a date."""
    custom = {
        int(one.get("numFmtId", "0"))
        for one in _all(archive, "xl/styles.xml", "numFmt")
        if re.search(r"[dmyhs]", re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", one.get("formatCode", "")), re.IGNORECASE)
    }
    kinds = [int(one.get("numFmtId", "0")) for style in _all(archive, "xl/styles.xml", "cellXfs") for one in style]
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
