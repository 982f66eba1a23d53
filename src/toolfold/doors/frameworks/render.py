"""An outcome or a reply as what a model reads: text, and pictures beside it. Knows no framework."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from toolfold.errors import EngineCrashed
from toolfold.models import MIB, File, Media, Outcome, Reply, Value

TRUNCATED: Final = "\n... (truncated)"
NOTHING_CALLED: Final = "The program was not started and no tool was called. Correct it and send it again."
_LONGEST_VALUE_CHARACTERS: Final = 64 * 1024
_MOST_IMAGES: Final = 10
_LARGEST_IMAGE_BYTES: Final = 5 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A picture, as all of these frameworks take it."""

    mime: str
    base64: str

    @property
    def url(self) -> str:
        """With its data in it."""
        return f"data:{self.mime};base64,{self.base64}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What goes back to the model."""

    text: str
    images: tuple[Image, ...] = ()
    has_failed: bool = False


def shown_outcome(outcome: Outcome) -> Shown:
    """What a program printed and its value; where it did not finish, why, and what that means for a next try."""
    parts = _success(outcome) if outcome.status == "finished" else _failure(outcome)
    found = [(media.mime, media.data) for media in _media(outcome.value) if media.kind == "image"]
    found += [(file.mime, file.data) for file in outcome.files if file.mime.startswith("image/")]
    return Shown(
        text="\n".join([*(part for part in parts if part), *map(_file_line, outcome.files)]) or "(no output)",
        images=_images(found),
        has_failed=outcome.status != "finished",
    )


def shown_reply(reply: Reply) -> Shown:
    """The reply to a direct call."""
    if reply.error is not None:
        return Shown(text=reply.error, has_failed=True)
    found = [(media.mime, media.data) for media in _media(reply.value) if media.kind == "image"]
    return Shown(text=_value_text(reply.value), images=_images(found))


def shown_crash(error: EngineCrashed) -> Shown:
    """A guest that died: the model must know what may have happened before it tries again."""
    text = f"The program was lost: {error}"
    if error.started:
        text += f"\nTools that were called and may have run: {', '.join(error.started)}"
    return Shown(text=text, has_failed=True)


def _success(outcome: Outcome) -> Iterator[str]:
    yield _stdout(outcome)
    if outcome.value is not None:
        yield f"Value: {_value_text(outcome.value)}" if outcome.stdout.strip() else _value_text(outcome.value)


def _failure(outcome: Outcome) -> Iterator[str]:
    message = outcome.problem.message if outcome.problem is not None else ""
    match outcome.status:
        case "rejected":
            yield f"{outcome.problem}\n{NOTHING_CALLED}"
        case "timeout":
            yield f"The program was stopped: {message or 'it took too long'}"
        case "cancelled":
            yield "The program was stopped before its end."
        case _:
            traceback = outcome.stderr.rstrip("\n") + (TRUNCATED if outcome.stderr_cut_bytes else "")
            yield traceback
            # A traceback ends with its message; a limit has none, or one of something else.
            yield message if message not in traceback else ""
    if outcome.stdout.strip():
        yield f"Output before that:\n{_stdout(outcome)}"


def _stdout(outcome: Outcome) -> str:
    text = outcome.stdout.rstrip("\n")
    return text + TRUNCATED if outcome.stdout_cut_bytes else text


def _file_line(file: File) -> str:
    return f"File: {file.name} ({file.mime}, {file.size} bytes)"


def _value_text(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(_described(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE_CHARACTERS else text[:_LONGEST_VALUE_CHARACTERS] + TRUNCATED


def _described(value: Value) -> Value:
    match value:
        case Media():
            return f"<{value.kind} {value.mime or value.uri}>"
        case bytes():
            return f"<{len(value)} bytes>"
        case dict():
            return {key: _described(item) for key, item in value.items()}
        case list():
            return [_described(item) for item in value]
    return value


def _media(value: Value) -> Iterator[Media]:
    match value:
        case Media():
            yield value
        case dict():
            for item in value.values():
                yield from _media(item)
        case list():
            for item in value:
                yield from _media(item)


def _images(found: list[tuple[str, bytes]]) -> tuple[Image, ...]:
    fitting = [(mime, data) for mime, data in found if data and len(data) <= _LARGEST_IMAGE_BYTES]
    return tuple(Image(mime=mime, base64=base64.b64encode(data).decode()) for mime, data in fitting[:_MOST_IMAGES])
