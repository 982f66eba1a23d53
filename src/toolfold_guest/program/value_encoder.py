"""Value encoder of the guest: Python objects to JSON text, with bytes, media and pictures marked.

The common case is one pass of the C encoder. Only what that refuses (NaN, odd keys, unknown
types, our own marks in a program's keys) takes the slow walk, which knows where it is. An argument that has no form
is refused; a program's value never is: what has no form becomes its text, and a note says so.
"""

import base64
import io
import json.encoder
import re
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any

from toolfold_guest.calls.pending_call import PendingCall, value_of
from toolfold_guest.shared.value_rules import FLAT, MAX_DEPTH, ValueWalk, key_text, simplify, text_of
from toolfold_guest.shared.wire_format import BYTES_KEY, MEDIA_KEY

# ----------------------------------------------------------------------------------------------------
# Images, sounds, links and files as a program meets them.


class Media:
    """An image, a sound, a link or a file that a tool gave; hand it back or read its `data`."""

    __slots__ = ("data", "kind", "mime", "name", "uri")
    __module__ = "__main__"

    def __init__(self, kind: str, mime: str, data: bytes = b"", uri: str = "", name: str = "") -> None:
        self.kind, self.mime, self.data, self.uri, self.name = kind, mime, data, uri, name

    def __repr__(self) -> str:
        return f"<{self.kind} {self.mime} {len(self.data)} bytes{' ' + self.name if self.name else ''}>"


_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}

_ENDS_LIKE_A_NUMBER = re.compile(r'(?:[0-9]|true|false|null)":')


class Unsendable(TypeError):
    """A value has no form that crosses the wall; the text names its type and its place."""

    __module__, __qualname__ = "builtins", "TypeError"  # which is what it is to the program


def encode(value: Any, path: str) -> str:
    """JSON text of an argument; `path` starts the path in an error, as in `value['rows'][3]`."""
    text = _fast(value)
    # The first brace is that of the arguments, whose keys are names.
    if text is not None and (text.rfind("{") <= 0 or not _may_clash(text, value)):
        return text
    return _py_encode(_Walk(None).plain(value, path, 0))


def encode_value(value: Any) -> tuple[str, list[str]]:
    """JSON text of a program's value, and what to tell of it."""
    try:
        text = _fast(value)
        if text is not None and not _may_clash(text, value):
            return text, list(dict.fromkeys(_notes)) if _notes else []
        notes: list[str] = []
        text = _py_encode(_Walk(notes).plain(value, "value", 0))
    except Exception as error:  # noqa: BLE001  # a container of the program's own may raise anything
        return _py_encode(text_of(value)), [f"the value could not be read: {type(error).__name__}; its text was sent"]
    return text, list(dict.fromkeys([*_notes, *notes]))


def _fast(value: Any) -> str | None:
    """One pass in C; `None` for what needs the walk."""
    marks[0] = 0
    if _notes:
        _notes.clear()
    try:
        text = "".join(_c_encode(value, 0)) if _c_encode is not None else _py_encode(value)
        if text.count('"\\u0000') == marks[0] and (
            text.count("[") + text.count("{") <= MAX_DEPTH or _is_shallow(value, text)
        ):
            text.encode()  # lone surrogates
            return text
    except (ValueError, TypeError, RecursionError):
        _markers.clear()
    return None


marks = [0]  # how many of our marks the last encoding made; more in the text are the program's own
_markers: dict[int, object] = {}
_LEAVES = (str, int, float, bytes, type(None))
_FLAT = _LEAVES + FLAT
_notes: list[str] = []


def _may_clash(text: str, value: Any) -> bool:
    """Whether two keys of one dict may be the same text, as `1` and `'1'` are; only the walk sees inside objects."""
    if "{" not in text or not _ENDS_LIKE_A_NUMBER.search(text):
        return False
    if not isinstance(value, dict | list | tuple):
        return True
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                if any(type(key) is not str for key in container) and len(set(map(key_text, container))) != len(
                    container
                ):
                    return True
                inner.extend(container.values())
            else:
                inner.extend(container)
        level = [item for item in inner if not isinstance(item, _LEAVES)]
        if not all(isinstance(item, dict | list | tuple) for item in level):
            return True
    return False


def _default(value: object) -> object:
    simpler = _simplify(value)
    if simpler is NotImplemented:
        raise TypeError
    return simpler


def _simplify(value: Any) -> Any:
    """One step from a rich object towards JSON; `NotImplemented` if there is none."""
    if type(value) is PendingCall:
        return value_of(value)
    if isinstance(value, bytes | bytearray | memoryview):
        marks[0] += 1
        return {BYTES_KEY: base64.b64encode(value).decode("ascii")}
    if isinstance(value, Media):
        marks[0] += 1
        data = base64.b64encode(value.data).decode("ascii")
        return {MEDIA_KEY: [value.kind, value.mime, data, value.uri, value.name]}
    return simplify(value, _notes.append)


def _is_shallow(value: Any, text: str) -> bool:
    """Level by level, each container once. What objects hold shows only in their text, which takes longer to read."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [
            item for container in level for item in (container.values() if isinstance(container, dict) else container)
        ]
        # By type: there are few, and many items.
        nested = [kind for kind in set(map(type, inner)) if not issubclass(kind, _FLAT)]
        if not nested:
            return True
        if not all(issubclass(kind, dict | list | tuple) for kind in nested):
            return _depth(text) <= MAX_DEPTH
        level = [item for item in inner if isinstance(item, dict | list | tuple)]
    return False


def _depth(text: str) -> int:
    brackets = re.findall(r"[\[\]{}]", _STRING.sub("", text))
    return max(accumulate(map(_STEP.__getitem__, brackets)), default=0)


class _Walk(ValueWalk):
    error = Unsendable

    def rich_object(self, value: Any, path: str, depth: int, steps: int) -> Any:
        before = marks[0]
        simpler = _simplify(value) if self.notes is None else _picture(value)
        if marks[0] != before:
            return simpler
        if simpler is NotImplemented:
            kind = type(value)
            is_short = kind.__module__ in ("builtins", "__main__")
            name = kind.__name__ if is_short else f"{kind.__module__}.{kind.__name__}"
            return self.unsendable(text_of(value), path, name)
        return self.plain(simpler, path, depth, steps + 1)

    def key(self, key: Any, path: str) -> str:
        text = super().key(key, path)
        return "\0" + text if text.startswith("\0") else text


def _picture(value: Any) -> Any:
    """As `_simplify`, of what is on its way to a person or a model; what fails on the way has no form."""
    try:
        picture = picture_of(value)
        return _simplify(value if picture is None else picture)
    except Exception:  # noqa: BLE001  # a property or a mapping of the program's own may raise anything
        return NotImplemented


_py_encode: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_default
).encode

# One C encoder for the life of the guest: `json.dumps` builds a new one for each call, at 2 µs.
_make: Any = getattr(json.encoder, "c_make_encoder", None)
_c_encode: Any = _make and _make(
    _markers, _default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)


def revive(value: Any) -> Any:
    """Replies with media in them: tuples of ours become `Media`; no other tuple is ever sent."""
    if isinstance(value, tuple):
        return Media(*value)
    if isinstance(value, list):
        return [revive(item) for item in value]
    if isinstance(value, dict):
        return {key: revive(item) for key, item in value.items()}
    return value


# ----------------------------------------------------------------------------------------------------
# Figures and images as pictures, for those programs that have any. Imports none of the libraries it knows.


def picture_of(value: Any) -> Media | None:
    """A figure, anything drawn on one, or an image; `None` for anything else."""
    module = type(value).__module__.partition(".")[0]
    if module == "PIL" and hasattr(value, "save"):
        return _png(lambda file: value.save(file, "PNG"))
    if module == "IPython" or not any(name.partition(".")[0] == "matplotlib" for name in _modules_of(value)):
        return None
    figure = figure_of(value)
    return None if figure is None else of_figure(figure)


def figure_of(value: Any) -> Any:
    if hasattr(value, "savefig"):
        return value
    get = getattr(value, "get_figure", None)
    figure = get() if callable(get) else getattr(value, "figure", None)
    return figure if hasattr(figure, "savefig") else None


def of_figure(figure: Any) -> Media | None:
    return _png(lambda file: figure.savefig(file, format="png"))


def open_figures() -> list[Any]:
    """Figures that `pyplot` still holds, in the order of their creation."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    return [] if pyplot is None else [pyplot.figure(number) for number in pyplot.get_fignums()]


def _modules_of(value: Any) -> list[str]:
    return [kind.__module__ for kind in type(value).__mro__]


def _png(save: Any) -> Media | None:
    file = io.BytesIO()
    try:
        save(file)
    except Exception:  # noqa: BLE001  # a figure that cannot be drawn is no picture; its text is still its value
        return None
    return Media("image", "image/png", file.getvalue())
