"""Parquet footer reader: names, types and the number of rows, without a library.

The footer is a struct in Thrift's compact encoding. Only its shape is read, and no data.
"""

from typing import Any

from toolfold_guest.describe.tables import MOST_COLUMNS

_MOST_BYTES = 16 * 1024 * 1024
_MOST_DEPTH = 20
_MAGIC = b"PAR1"
_TYPES = ("bool", "int", "int", "date", "float", "float", "bytes", "bytes")
"""Physical types, by number; the 96-bit integer is an old date."""
_CONVERTED = {0: "str", 4: "str", 5: "decimal", 6: "date", 9: "date", 10: "date", 11: "dict", 3: "list", 1: "dict"}
_LOGICAL = {
    1: "str", 2: "dict", 3: "list", 4: "str", 5: "decimal", 6: "date", 7: "time", 8: "date", 12: "dict", 14: "str",
}  # fmt: skip


def parquet_file(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != _MAGIC or length > min(size, _MOST_BYTES):
            raise ValueError("not a Parquet file, or one with a sealed footer")
        # All that is read of the file: the data before it may be of any size.
        file.seek(size - 8 - length)
        footer = _Reader(file.read(length)).struct(0)
    return {"rows": footer.get(3, 0), "columns": _columns(footer.get(2, []))}


def _columns(elements: list[dict[int, Any]]) -> dict[str, str]:
    """The elements are a tree in one list: each says how many of those after it are its children."""
    columns: dict[str, str] = {}
    at = 1  # the first one is the table itself
    while at < len(elements) and len(columns) < MOST_COLUMNS:
        element = elements[at]
        columns[element.get(4, b"").decode("utf-8", "replace")] = _type(element) + ("?" if element.get(3) == 1 else "")
        at += _width(elements, at)
    return columns


def _width(elements: list[dict[int, Any]], at: int) -> int:
    """How many elements one and all below it are."""
    # Not by recursion: the depth of the tree is the file's to choose.
    remaining, width = 1, 0
    while remaining and at + width < len(elements):
        remaining += elements[at + width].get(5, 0) - 1
        width += 1
    return width


def _type(element: dict[int, Any]) -> str:
    logical = next(iter(element.get(10, {})), None)
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if element.get(6) in _CONVERTED:
        return _CONVERTED[element[6]]
    if element.get(5):
        return "dict"
    kind = element.get(1, -1)
    return _TYPES[kind] if 0 <= kind < len(_TYPES) else "any"


class _Reader:
    """Thrift's compact encoding, as far as it is needed: structs become dicts by field number."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MOST_DEPTH:
            raise ValueError("the footer is nested too deep")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._number())
        if kind in (9, 10):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._number()
            # Each item takes a byte at least, so a huge count ends at the end of the data.
            return [self._item(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth)
        raise ValueError(f"the footer has a field of unknown kind {kind}")

    def _item(self, kind: int, depth: int) -> Any:
        return self._byte() == 1 if kind in (1, 2) else self._value(kind, depth)

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _bytes(self, count: int) -> bytes:
        data = self._data[self._at : self._at + count]
        if len(data) < count:
            raise ValueError("the footer ends too early")
        self._at += count
        return data

    def _number(self) -> int:
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
            # Else a number of a megabyte would take minutes to add up.
            if shift > 70:
                raise ValueError("the footer has a number that is too large")

    def _signed(self) -> int:
        value = self._number()
        return (value >> 1) ^ -(value & 1)
