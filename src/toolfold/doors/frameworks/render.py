"""An outcome or a reply as what a model reads: text, and pictures beside it. Knows no framework."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from toolfold.doors.media import described, images_in
from toolfold.doors.teaching import lessons
from toolfold.errors import EngineCrashed
from toolfold.models import File, Outcome, Reply, Value

TRUNCATED: Final = "\n... (truncated)"
NOTHING_CALLED: Final = "The program was not started and no tool was called. Correct it and send it again."
_LONGEST_VALUE_CHARACTERS: Final = 64 * 1024


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

    @property
    def text_alone(self) -> str:
        """For messages that take text only: pictures are counted."""
        return f"{self.text}\n(images not shown here: {len(self.images)})" if self.images else self.text


def shown_outcome(outcome: Outcome) -> Shown:
    """What a program printed and its value; where it did not finish, why, and what that means for a next try."""
    parts = _success(outcome) if outcome.status == "finished" else _failure(outcome)
    return Shown(
        text="\n".join([*(part for part in parts if part), *lessons(outcome), *map(_file_line, outcome.files)])
        or "(no output)",
        images=_images(images_in(outcome.value, outcome.files)),
        has_failed=outcome.status != "finished",
    )


def shown_reply(reply: Reply) -> Shown:
    """The reply to a direct call."""
    if reply.error is not None:
        return Shown(text=reply.error, has_failed=True)
    return Shown(text=_value_text(reply.value), images=_images(images_in(reply.value)))


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
    text = value if isinstance(value, str) else json.dumps(described(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE_CHARACTERS else text[:_LONGEST_VALUE_CHARACTERS] + TRUNCATED


def _images(found: Iterable[tuple[str, bytes]]) -> tuple[Image, ...]:
    return tuple(Image(mime=mime, base64=base64.b64encode(data).decode()) for mime, data in found)
