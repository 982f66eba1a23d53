"""Error texts of tools: secrets masked, arguments hidden in the log, tracebacks without our own frames.

A model needs the text to try something else, and texts hold passwords: of a URL, of a header, of a connection. So the
values of variables that are called like secrets, and of those that the config uses, are masked in it.
"""

from __future__ import annotations

import base64
import functools
import html
import json
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from toolfold.models import Value

MASK: Final = "***"
SHORTEST: Final = 8
"""Characters; shorter values are words, numbers and flags."""
_SECRET_NAME: Final = re.compile(
    r"secret|token|passw|pwd|passphrase|credential|private|api_?key|access_?key|(^|_)(key|auth|dsn|cookie|session)($|_)",
    re.IGNORECASE,
)
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})
"""Set by every shell, and called like passwords: a tool that names a file in the current folder tells no secret."""
_ESCAPE: Final = re.compile(r"%[0-9A-F]{2}")
_UNESCAPED: Final = ("", "/", "!'()*", ";/?:@&=+$,#!'()*")
"""Signs that URLs are written with: as Python has them, and as `encodeURIComponent` and `encodeURI` have them."""
_hidden: set[str] = set()


def hide(values: Iterable[str]) -> None:
    """Mask these from now on in every error of a tool, in this process: a config says what it got from variables."""
    _hidden.update(value for value in values if len(value) >= SHORTEST)


def is_secret(name: str) -> bool:
    return name not in _FOLDERS and _SECRET_NAME.search(name) is not None


def mask_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """The text without secrets, raw or encoded."""
    variables = (os.environ if environment is None else environment).items()
    secrets = {value for name, value in variables if len(value) >= SHORTEST and is_secret(name)} | _hidden
    for form in forms_of(frozenset(secrets)):
        if form in text:
            text = text.replace(form, MASK)
    return text


@functools.lru_cache(maxsize=16)
def forms_of(secrets: frozenset[str]) -> tuple[str, ...]:
    """Every way in which these may be written; the longest first, for one may be a part of another."""
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= SHORTEST}
    return tuple(sorted(forms, key=len, reverse=True))


def _forms(secret: str) -> Iterator[str]:
    yield secret
    for escaped in (*(quote(secret, safe=signs) for signs in _UNESCAPED), quote_plus(secret)):
        yield from (escaped, _ESCAPE.sub(lambda match: match[0].lower(), escaped))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1])
    yield from (html.escape(secret), html.escape(secret, quote=False))
    yield json.dumps(secret)[1:-1].replace("/", "\\/")  # as PHP and some others write JSON
    data = secret.encode("utf-8", "surrogateescape")
    for before in range(3):
        # Within a longer text it may begin at any of three places; the signs at its edges hold bits of its neighbours.
        encoded = base64.b64encode(b"\0" * before + data)
        first = (0, 2, 3)[before]
        last = len(encoded) if (before + len(data)) % 3 == 0 else (before + len(data)) * 8 // 6
        inner = encoded[first:last].decode()
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


# ----------------------------------------------------------------------------------------------------
# What the log says of a failed call: its error, without what the call was given.

MAX_MESSAGE_CHARACTERS: Final = 500
_SHORTEST_VALUE: Final = 3
_MOST_VALUES: Final = 1000


def error_for_log(error: str, arguments: Mapping[str, Value]) -> str:
    """The error on one line, with `***` for each text among the arguments: tools repeat them, and some are secret."""
    return cut(repr(hide_arguments(error, arguments)))


def hide_arguments(text: str, arguments: Mapping[str, Value]) -> str:
    """The text with `***` for each text among the arguments."""
    for number, value in enumerate(sorted(set(_texts(arguments)), key=len, reverse=True)):
        if number >= _MOST_VALUES:
            return "(not shown: too many arguments to hide)"
        text = text.replace(value, "***")
    return text


def cut(text: str) -> str:
    """Not longer than a line of a log should be."""
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 1] + "…"


def _texts(value: Value) -> Iterator[str]:
    match value:
        case str() if len(value) >= _SHORTEST_VALUE:
            yield value
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


# ----------------------------------------------------------------------------------------------------
# Where a tool failed, for whoever wrote the tool: in the record and in the log, never in what a program reads.

MAX_TRACEBACK_CHARACTERS: Final = 4_000
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_THREADS: Final = (os.path.join("concurrent", "futures", "thread.py"), os.path.join("asyncio", "threads.py"))
"""Frames of the threads that tools without `async` run in."""


def traceback_of(error: BaseException) -> str:
    """The traceback without the frames of this package and without secrets; empty if no other frame is in it."""
    report = traceback.TracebackException.from_exception(error)
    if not _drop_own_frames(report):
        return ""
    # Not the folders: the current one stands in a variable, and is no secret from whoever wrote the tool.
    lines = "".join(report.format()).splitlines(keepends=True)
    text = "".join(line if line.startswith("  File ") else mask_secrets(line) for line in lines)
    # As in the text of the error, and before it is cut: half a surrogate pair would be written with six characters.
    text = text.encode("utf-8", "backslashreplace").decode()
    # The end has the line that failed.
    return text if len(text) <= MAX_TRACEBACK_CHARACTERS else f"…{text[-MAX_TRACEBACK_CHARACTERS:]}"


def _drop_own_frames(report: traceback.TracebackException) -> bool:
    foreign_frames = [
        item for item in report.stack if not (item.filename.startswith(_OURS) or item.filename.endswith(_THREADS))
    ]
    report.stack = traceback.StackSummary.from_list(foreign_frames)
    # A list, not a generator: each of them has to be changed.
    inner = [item for item in (report.__cause__, report.__context__, *(report.exceptions or ())) if item is not None]
    return any([bool(report.stack), *map(_drop_own_frames, inner)])
