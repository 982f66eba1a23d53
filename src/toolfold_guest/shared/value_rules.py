"""Value rules for guests, tools and every engine: size limits, and the JSON form of objects.

What becomes of an object that is no JSON value is in `forms`. Two differences are meant: a program's NaN is sent as
null and its infinity is refused, because JSON has neither, but replies keep both, because Python has them.
"""

import dataclasses
import datetime
import enum
import ipaddress
import math
import re
import sys
import types
from collections import deque
from collections.abc import Callable, ItemsView, KeysView, Mapping, ValuesView
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

MAX_DEPTH: Final = 200
"""Lists and dicts within each other; the arguments of a call are the first of them."""
MAX_DIGITS: Final = 4300
"""Of an integer. More than these Python itself does not turn into text, so every JSON encoder here refuses them."""
LONGEST_RANGE: Final = 1_000_000

_TOO_LARGE: Final = 10**MAX_DIGITS
_MAX_SHOWN_BITS: Final = 1_000_000


def can_be_sent(number: int) -> bool:
    return -_TOO_LARGE < number < _TOO_LARGE


def is_text(text: str) -> bool:
    """Whether text has a form in UTF-8; a lone surrogate has none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """The same text with lone surrogates as they are written in source code."""
    return text.encode("utf-8", "backslashreplace").decode()


def digits(number: int) -> str:
    """All digits of an integer that cannot be sent, up to a size that still takes little time."""
    if number.bit_length() > _MAX_SHOWN_BITS:
        return f"an integer of {number.bit_length()} bits"
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return str(number)
    finally:
        sys.set_int_max_str_digits(limit)


def too_deep(path: str) -> str:
    return f"{path[:60]}... is nested more than {MAX_DEPTH} levels deep"


def too_long(path: str) -> str:
    return f"{path} is an integer of more than {MAX_DIGITS} digits, which cannot be sent"


def not_text(path: str) -> str:
    return f"{path} is text with a lone surrogate, which cannot be sent"


def infinite(path: str) -> str:
    return f"{path} is infinite, which JSON has no number for"


# ----------------------------------------------------------------------------------------------------
# What becomes of an object that is no JSON value: one table for programs, tools and every engine.
#
# `simplify` takes one step from an object towards JSON values, `bytes` kept; whoever walks a value calls it again
# on what it gave. Libraries are known by their module's name and never imported. `TABLE` is what the docs show.

LONGEST_TEXT: Final = 1_000

Note = Callable[[str], None]
"""Told what a form leaves out, where it does."""

TABLE: Final = (
    ("`None`, `bool`, `int`, `float`, `str`, `bytes`", "unchanged; `nan` becomes null, except in a reply"),
    ("tuple, named tuple, deque, range, dict view", "list"),
    ("set, frozenset", "list, sorted if the members are comparable, otherwise by their text"),
    ("dict, other mapping, dataclass, pydantic model, attrs class, msgspec struct", "object"),
    ("a key that is not a string", "a string, as in JSON; a date in ISO 8601, tuples and bytes as Python prints them"),
    ("datetime, date, time", "ISO 8601 text"), ("timedelta", "seconds"), ("enum", "its value"),
    ("UUID, path, IP address, URL", "text"),
    ("`Decimal`, mpmath `mpf`, sympy number", "number if no digit is lost, otherwise exact text"),
    ("`Fraction`, sympy rational", "integer if it is one, otherwise text such as `1/3`"),
    ("`complex`, mpmath `mpc`", "text such as `1+2j`"), ("sympy expression; matrix", "text; list of rows"),
    ("numpy scalar; array; structured array", "number or text; list; list of objects"),
    ("DataFrame", "list of objects, one per row; an index other than row numbers comes first, as columns"),
    ("Series", "list; an object keyed by its labels if they are not row numbers"),
    ("pandas Index, array; `Timestamp`, `NaT`, `NA`; `Period`, `Interval`", "list; ISO 8601 text, null; text"),
)  # fmt: skip
"""Of the types in the first column comes what the second says, in arguments, values and replies."""

_LISTED: Final = (deque, KeysView, ValuesView, ItemsView, types.GenericAlias, tuple)
_TEXTS: Final = (
    UUID, PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network,
)  # fmt: skip
FLAT: Final = (datetime.date, datetime.time, datetime.timedelta, Decimal, Fraction, complex, *_TEXTS)
"""Objects that become a number or text, so nothing is nested in them."""
_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+|(?<=<)__main__\.")


def ignore(_: str) -> None:
    """For those who have nobody to tell."""


def simplify(value: Any, note: Note = ignore) -> Any:
    """One step towards JSON values; `NotImplemented` where the table has no row."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        # pandas' NaT is a datetime that equals nothing, not even itself.
        return value.isoformat() if value == value else None
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, _TEXTS):
        return str(value)
    if isinstance(value, Decimal | Fraction | complex):
        return _number(value)
    if isinstance(value, set | frozenset):
        return in_order(value)
    if isinstance(value, range):
        return list(value) if len(value) <= LONGEST_RANGE else NotImplemented
    if isinstance(value, _LISTED):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, type):
        return NotImplemented
    fields = _fields(value)
    return _foreign(value, note) if fields is None else {name: getattr(value, name) for name in fields}


def text_of(value: Any) -> str:
    """The last resort for what has no form: how it prints, without its address, which changes from run to run."""
    try:
        text = _ADDRESS.sub("", repr(value))
    except Exception as error:  # noqa: BLE001  # whatever the program's own `__repr__` raises
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def in_order(items: Any) -> list[Any]:
    """A set's order changes from process to process; what is sent should not."""
    try:
        return sorted(items)
    except TypeError:
        return sorted(items, key=lambda item: (type(item).__name__, repr(item)))


def key_text(key: Any) -> str | None:
    """A key as text; `None` where only its `repr` is left."""
    if isinstance(key, enum.Enum):
        return key_text(key.value)
    if isinstance(key, str):
        return str.__str__(key)
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int):
        return int.__repr__(key) if can_be_sent(key) else None
    if isinstance(key, float):
        return "NaN" if key != key else float.__repr__(key)
    if isinstance(key, tuple | bytes):
        return text_of(key)
    simpler = simplify(key)
    return key_text(simpler) if isinstance(simpler, str | int | float) else None


def _number(value: Any) -> Any:
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    if isinstance(value, complex):
        return str(value).strip("()")
    if not value.is_finite():
        return float(value) if not value.is_snan() else None
    number = float(value)
    return number if Decimal(repr(number)) == value else str(value)


def _fields(value: Any) -> tuple[str, ...] | None:
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    if hasattr(kind, "__attrs_attrs__"):
        return tuple(field.name for field in kind.__attrs_attrs__)
    return tuple(kind.__struct_fields__) if hasattr(kind, "__struct_fields__") else None


def _foreign(value: Any, note: Note) -> Any:
    """Types of libraries that may not be loaded, known by their module and shape."""
    module = type(value).__module__.partition(".")[0]
    if module == "numpy":
        return _numpy(value)
    if module == "pandas":
        return _pandas(value, note)
    if module == "sympy":
        return _sympy(value)
    if module == "mpmath":
        return _mpmath(value)
    if module == "polars":
        rows = getattr(value, "to_dicts", None) or getattr(value, "to_list", None)
        return NotImplemented if rows is None else rows()
    if module in ("pydantic", "pydantic_core") and type(value).__name__.endswith("Url"):
        return str(value)
    dump = getattr(value, "model_dump", None)
    return dump() if callable(dump) else NotImplemented


def _numpy(value: Any) -> Any:
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind is None or not hasattr(value, "tolist"):
        return NotImplemented
    if kind == "M":
        unit = value.dtype.name.partition("[")[2]
        if unit in ("Y]", "M]", "W]", "h]", "m]"):
            value = value.astype("datetime64[s]" if unit in ("h]", "m]") else "datetime64[D]")
        return _as_dates(value.astype(str).tolist())
    if kind == "m":
        return (value / value.dtype.type(1, "s")).tolist()
    plain = value.tolist()
    if value.dtype.names:
        return _records(plain, value.dtype.names)
    if type(plain) is type(value):  # a `longdouble` is its own plain form
        return (float(value) if float(value) == value else str(value)) if kind == "f" else str(value).strip("()")
    return plain


def _records(rows: Any, names: tuple[str, ...]) -> Any:
    if isinstance(rows, list):
        return [_records(row, names) for row in rows]
    return dict(zip(names, rows, strict=True))


def _as_dates(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_dates(item) for item in value]
    if value == "NaT":
        return None
    return value.rstrip("0").rstrip(".") if "." in value else value


def _pandas(value: Any, note: Note) -> Any:
    name = type(value).__name__
    if name in ("NAType", "NaTType"):
        return None
    if hasattr(value, "iterrows"):
        return _frame(value, note)
    if hasattr(value, "index") and hasattr(value, "tolist") and hasattr(value, "items"):
        return _series(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value) if name in ("Period", "Interval") else NotImplemented


def frame_columns(frame: Any, note: Note = ignore) -> tuple[list[str], list[list[Any]]]:
    """The names and values of a DataFrame's columns, its index among them where it says something."""
    index = frame.index
    columns = [frame.iloc[:, at].tolist() for at in range(len(frame.columns))]
    names = [_label(label) for label in frame.columns]
    if not _is_row_numbers(index):
        if _is_unnamed_integers(index):
            note("the row numbers of a DataFrame were left out; 'reset_index()' keeps them")
        else:
            names = [*_index_names(index), *names]
            columns = [*_index_columns(index), *columns]
    unique = _unique(names)
    if unique != names:
        note(f"columns of one name were told apart: {', '.join(name for name in unique if name not in names)[:200]}")
    return unique, columns


def _frame(frame: Any, note: Note) -> list[Any]:
    """Records, column by column: five times as fast as row by row."""
    names, columns = frame_columns(frame, note)
    if not names:
        return [{} for _ in range(len(frame))]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _series(series: Any) -> Any:
    if _is_row_numbers(series.index):
        return series.tolist()
    labels = [_label(label) for label in series.index.tolist()]
    if len(set(labels)) == len(labels):
        return dict(zip(labels, series.tolist(), strict=True))
    name = "value" if series.name is None else _label(series.name)
    names = _unique([*_index_names(series.index), name])
    rows = zip(*_index_columns(series.index), series.tolist(), strict=True)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _is_row_numbers(index: Any) -> bool:
    """`0, 1, 2, ...` without a name: it says nothing that the order does not."""
    if index.names != [None] or getattr(index.dtype, "kind", "") not in "iu":
        return False
    return bool(index.tolist() == list(range(len(index))))


def _is_unnamed_integers(index: Any) -> bool:
    """What is left of row numbers after a filter or a sort."""
    return index.names == [None] and getattr(index.dtype, "kind", "") in "iu"


def _index_names(index: Any) -> list[str]:
    names = list(index.names)
    unnamed = ["index"] if len(names) == 1 else [f"level_{at}" for at in range(len(names))]
    return [other if name is None else _label(name) for name, other in zip(names, unnamed, strict=True)]


def _index_columns(index: Any) -> list[list[Any]]:
    return [index.get_level_values(at).tolist() for at in range(index.nlevels)]


def _label(label: Any) -> str:
    if isinstance(label, tuple):
        return "_".join(part for part in map(_label, label) if part)
    return key_text(label) or text_of(label)


def _unique(names: list[str]) -> list[str]:
    """`a`, `a.1`, `a.2` for names that are all `a`, as pandas reads such a file."""
    used_names: set[str] = set()
    unique = []
    for name in names:
        candidate, count = name, 0
        while candidate in used_names:
            count += 1
            candidate = f"{name}.{count}"
        used_names.add(candidate)
        unique.append(candidate)
    return unique


def _sympy(value: Any) -> Any:
    if hasattr(value, "tolist") and hasattr(value, "shape"):
        return value.tolist()
    if getattr(value, "is_Boolean", False):
        return bool(value) if str(value) in ("True", "False") else str(value)
    if getattr(value, "is_Integer", False):
        return int(value)
    if getattr(value, "is_Float", False):
        number = float(value)
        return number if type(value)(number, precision=value._prec) == value else _number(Decimal(str(value)))
    is_set = getattr(value, "is_FiniteSet", False)
    if is_set or type(value).__name__ == "Tuple":
        return list(value.args)
    return str(value)


def _mpmath(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if type(value).__name__ == "mpf":
        number = float(value)
        return number if number == value or number != number else _digits(value)
    return str(value).strip("()").replace(" ", "")


def _digits(value: Any) -> str:
    """All that a number has, though `str` shows no more than the precision of the moment."""
    bits = value._mpf_[3]
    return str(sys.modules["mpmath"].nstr(value, max(int(bits * math.log10(2)), 1)))


# ----------------------------------------------------------------------------------------------------
# The walk that guests and engines take where one pass in C does not do.

OBJECT_STEPS: Final = 50
"""Towards JSON values, from one object; more takes only one that turns into itself."""


class ValueWalk:
    """One slow walk through one value, which knows where it is.

    Args:
        notes: If given, nothing is refused: what has no form becomes its text, and a note is added.
    """

    error: type[TypeError] = TypeError
    leaves: tuple[type, ...] = ()
    """Types that are left as they are."""

    def __init__(self, notes: list[str] | None) -> None:
        self.notes = notes

    def plain(self, value: Any, path: str, depth: int, steps: int = 0) -> Any:
        """The value as JSON values; `depth` is how many containers it is in, `steps` how often it was simplified."""
        if value is None or type(value) is bool or isinstance(value, self.leaves):
            return value
        if isinstance(value, int) and not isinstance(value, enum.Enum):
            return int(value) if can_be_sent(value) else self.as_text(digits(value), too_long(path))
        if isinstance(value, float):
            return self._float(value, path)
        if isinstance(value, str):
            return self.text(value, path)
        is_container = isinstance(value, dict | list | tuple)
        if steps > OBJECT_STEPS or (is_container and depth >= MAX_DEPTH):
            return self.as_text(text_of(value), too_deep(path))
        if isinstance(value, dict):
            return self._record(value, path, depth)
        if is_container:
            return [self.plain(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value)]
        return self.rich_object(value, path, depth, steps)

    def rich_object(self, value: Any, path: str, depth: int, steps: int) -> Any:
        """A value that JSON has no form for."""
        raise NotImplementedError

    def unsendable(self, text: str, path: str, name: str) -> str:
        refusal = f"{path} is a {name!r}, which cannot be sent; make it JSON values or bytes first"
        return self.as_text(text, f"{path} is a {name!r}, which has no JSON form", refusal=refusal)

    def type_name(self, value: Any) -> str:
        return type(value).__name__

    def key(self, key: Any, path: str) -> str:
        text = key_text(key)
        if text is None:
            message = f"{path} has a key of type {self.type_name(key)!r}; keys must be text or numbers"
            text = self.as_text(text_of(key), message, note="")
        return self._valid(text, f"a key of {path}")

    def text(self, value: str, path: str) -> str:
        return self._valid(value, path)

    def _valid(self, value: str, path: str) -> str:
        if not is_text(value):
            return self.as_text(escaped(value), not_text(path), note="it was escaped")
        return str.__str__(value)  # of an enum that is a str: its text, not its name

    def as_text(self, text: str, message: str, *, refusal: str = "", note: str = "its text was sent") -> str:
        """The text in place of what has no form, if that is allowed."""
        if self.notes is None:
            raise self.error(refusal or message)
        if note:
            self.notes.append(f"{message}; {note}")
        return text

    def _float(self, value: float, path: str) -> Any:
        if math.isfinite(value):
            return float(value)
        if value != value:
            return None
        message = infinite(path)
        return self.as_text(float.__repr__(value), message, refusal=f"{message}; send None or text")

    def _record(self, value: dict[Any, Any], path: str, depth: int) -> Any:
        plain: dict[str, Any] = {}
        for key, item in value.items():
            name = self.key(key, path)
            if name in plain:
                clash = f"{path} has two keys that are both {name!r} as text"
                refusal = f"{clash}; make them different first"
                self.as_text("", clash, refusal=refusal, note="its items were sent as pairs")
                return self.plain([[key, item] for key, item in value.items()], path, depth)
            plain[name] = self.plain(item, f"{path}[{key!r}]", depth + 1)
        return plain
