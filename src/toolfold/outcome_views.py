"""Outcome views: plain values, JSON, and HTML for notebooks. Knows fields by their names, and no class of ours.

All text in it may be a stranger's: in HTML each piece is escaped, and pictures are data, never addresses.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_MOST_PICTURES: Final = 10
_MOST_CALLS: Final = 100
_SHOWN_CHARACTERS: Final = 20_000
_FIELDS: Final = (
    "execution_id", "status", "value", "stdout", "stderr", "stdout_cut_bytes", "stderr_cut_bytes", "problem", "calls",
    "files", "engine", "isolation", "seconds", "context_saved", "hints", "unmade_calls",
)  # fmt: skip
CALL_FIELDS: Final = (
    "id", "name", "line", "within", "arguments", "started_seconds", "seconds", "error", "bytes_in", "bytes_out",
    "attempts", "cached", "breaker", "from_record",
)  # fmt: skip
"""What is told of a call, wherever its record is JSON."""
_PROBLEM: Final = ("kind", "message", "line", "column", "source")
_SAVED: Final = ("tokens", "bytes", "method")
_PRE: Final = "margin:0;padding:4px 0;white-space:pre-wrap;text-align:left"
_COLORS: Final = {"finished": "#1a7f37", "paused": "#9a6700", "running": "#0969da"}


# Any, here and below: values of a program, and records whose classes are not known here.
class OutcomeViews:
    """JSON and HTML views for an outcome to inherit."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values: bytes are `{"base64": ...}`, files have no data, numbers beyond JSON are `None`."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        fields["problem"] = _pick_fields(fields["problem"], _PROBLEM)
        fields["context_saved"] = _pick_fields(fields["context_saved"], _SAVED)
        fields["calls"] = [_pick_fields(call, CALL_FIELDS) for call in fields["calls"]]
        fields["files"] = [{"name": file.name, "mime": file.mime, "size": file.size} for file in fields["files"]]
        return {name: value_as_json(value) for name, value in fields.items()}

    def to_json(self, *, indent: int | None = None) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False, indent=indent)

    @property
    def unmade_line(self) -> str:
        """The calls that were not made, in a sentence; empty if there are none."""
        calls: Sequence[str] = getattr(self, "unmade_calls")  # noqa: B009  # a field of the class that inherits this
        verb = "was" if len(calls) == 1 and not calls[0].endswith("times)") else "were"
        return f"not made: {', '.join(calls)} {verb} never awaited" if calls else ""

    @property
    def line_hints(self) -> list[str]:
        """The hints about a line of the program: what is probably wrong there."""
        hints: Sequence[str] = getattr(self, "hints")  # noqa: B009  # a field of the class that inherits this
        return [hint for hint in hints if hint.startswith("line ")]

    def _repr_html_(self) -> str:
        return f'<div style="font-family:sans-serif;font-size:13px">{"".join(_parts(self))}</div>'


_MOST_IMAGES: Final = 10
_LARGEST_IMAGE_BYTES: Final = 5 * 1024 * 1024


def images_in(value: Any, files: Sequence[Any] = ()) -> list[tuple[str, bytes]]:
    """Type and data of the pictures in a value and among files; not the huge ones, and not too many."""
    images = [(media.mime, media.data) for media in media_in(value) if media.kind == "image"]
    images += [(file.mime, file.data) for file in files if file.mime.startswith("image/")]
    return [(mime, data) for mime, data in images if 0 < len(data) <= _LARGEST_IMAGE_BYTES][:_MOST_IMAGES]


def sounds_in(value: Any) -> list[tuple[str, bytes]]:
    """Type and data of the sounds in a value, within the limits of pictures."""
    sounds = [(media.mime, media.data) for media in media_in(value) if media.kind == "audio"]
    return [(mime, data) for mime, data in sounds if 0 < len(data) <= _LARGEST_IMAGE_BYTES][:_MOST_IMAGES]


def call_as_json(record: Any) -> Any:
    return value_as_json(_pick_fields(record, CALL_FIELDS))


def value_as_json(value: Any) -> Any:
    """A value of a program: bytes as `{"base64": ...}`, and null for numbers that JSON does not have."""
    match value:
        case bytes():
            return {"base64": base64.b64encode(value).decode("ascii")}
        case Mapping():
            return {str(key): value_as_json(item) for key, item in value.items()}
        case list() | tuple():
            return [value_as_json(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    if _is_media(value):
        fields = {"kind": value.kind, "mime": value.mime, "uri": value.uri, "name": value.name}
        return {**fields, "data": value_as_json(value.data)}
    return value


def _parts(outcome: Any) -> Iterator[str]:
    color = _COLORS.get(outcome.status, "#cf222e")
    count = len(outcome.calls)
    yield (
        f'<div><b style="color:{color}">{escape(outcome.status)}</b> in {outcome.seconds:.3f} s, '
        f"{count} call{'' if count == 1 else 's'} <code>{escape(outcome.execution_id)}</code></div>"
    )
    for text in (str(outcome.problem or ""), outcome.unmade_line):
        if text:
            yield _text(text, color="#cf222e")
    for title, text in (("output", outcome.stdout), ("stderr", outcome.stderr)):
        if text:
            yield f"<div><i>{title}</i></div>{_text(text)}"
    media = [*media_in(outcome.value), *outcome.files]
    pictures = [(medium.mime, medium.data) for medium in media if medium.mime in _PICTURES and medium.data]
    if outcome.value is not None and not _is_media(outcome.value):
        yield f"<div><i>value</i></div>{_text(_value_text(outcome.value))}"
    for mime, data in pictures[:_MOST_PICTURES]:
        yield f'<img style="max-width:100%" src="data:{mime};base64,{base64.b64encode(data).decode("ascii")}">'
    if outcome.calls:
        yield _waterfall(outcome.calls)
    for hint in outcome.hints:
        yield f"<div>hint: {escape(hint)}</div>"


def _waterfall(calls: Sequence[Any]) -> str:
    first = min(call.started_seconds for call in calls)
    whole = max(max(call.started_seconds + call.seconds for call in calls) - first, 1e-9)
    rows = []
    for call in calls[:_MOST_CALLS]:
        before, width = (call.started_seconds - first) / whole * 100, max(call.seconds / whole * 100, 0.5)
        color = "#1a7f37" if call.error is None else "#cf222e"
        arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        title = escape(f"{call.name}({arguments})"[:500])
        bar = f'<div style="margin-left:{before:.1f}%;width:{width:.1f}%;height:8px;background:{color}"></div>'
        rows.append(
            f'<tr title="{title}"><td style="text-align:left">{escape(call.name)}</td>'
            f'<td>{call.seconds * 1000:.0f} ms</td><td style="width:60%">{bar}</td></tr>'
        )
    more = f"<div>and {len(calls) - _MOST_CALLS} more calls</div>" if len(calls) > _MOST_CALLS else ""
    return f'<div><i>calls</i></div><table style="width:100%">{"".join(rows)}</table>{more}'


def _text(text: str, *, color: str = "inherit") -> str:
    excerpt = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return f'<pre style="{_PRE};color:{color}">{escape(excerpt)}</pre>'


def _value_text(value: Any) -> str:
    return json.dumps(value_as_json(describe_media(value)), ensure_ascii=False, indent=1)


def media_in(value: Any) -> Iterator[Any]:
    """Every medium in a value, at any depth."""
    if _is_media(value):
        yield value
    elif isinstance(value, (Mapping, list, tuple)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from media_in(item)


def describe_media(value: Any) -> Any:
    """The value as text readers see it: a word in place of each medium and of bytes."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if _is_media(value):
        return f"<{value.kind} {value.mime or value.uri}>"
    if isinstance(value, Mapping):
        return {key: describe_media(item) for key, item in value.items()}
    return [describe_media(item) for item in value] if isinstance(value, (list, tuple)) else value


def _is_media(value: Any) -> bool:
    return hasattr(value, "mime") and hasattr(value, "uri")


def escape(text: str) -> str:
    """For HTML, also inside of quotes."""
    # Not `html.escape`: every start of toolfold would wait for the table of all entities.
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#x27;")):
        text = text.replace(sign, entity)
    return text


def _pick_fields(record: Any, names: Sequence[str]) -> dict[str, Any] | None:
    return None if record is None else {name: getattr(record, name) for name in names}
