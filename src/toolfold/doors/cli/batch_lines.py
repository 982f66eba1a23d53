"""The two files of `toolfold batch`: programs in, one per line, and results out, each line whole or not there."""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from toolfold.errors import UsageError
from toolfold.execution.batch import Item
from toolfold.models import File, Json, Limits, Outcome

_LIMITS: Final = frozenset(field.name for field in fields(Limits))


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One program, as a line of the input says it."""

    program: str
    id: str | int | None = None
    """What its result is found by; the number of the line unless given."""
    tools: list[str] | None = None
    files: dict[str, str | dict[str, str]] = {}
    """Texts, or `{"base64": ...}`, by name."""
    limits: dict[str, float | int] = {}
    session: str = ""
    keep_names: bool = False
    seed: int | None = None
    stdin: str | None = None
    clock: float | None = None
    """Seconds since 1970, at the start of the program; its clocks then advance with readings and sleeps only."""


_decoder: Final = msgspec.json.Decoder(Line)


class Programs:
    """The input. Read twice: once to find mistakes before anything runs, and once as there is room.

    Raises:
        UsageError: it cannot be read, or one of its lines is wrong; the text names the line.
    """

    def __init__(self, path: Path, usual: Limits) -> None:
        self._path = path
        self._usual = usual
        self.ids: set[str] = set()
        for number, item in self._items():
            if item.tag in self.ids:
                raise self._wrong(number, f"the id {item.tag!r} is on an earlier line, too; ids must differ")
            self.ids.add(item.tag)

    def items(self, done: set[str]) -> Iterator[Item]:
        """Those without a result."""
        return (item for _, item in self._items() if item.tag not in done)

    def _items(self) -> Iterator[tuple[int, Item]]:
        try:
            with self._path.open("rb") as opened:
                for number, raw in enumerate(opened, 1):
                    if not raw.strip():
                        continue
                    yield number, self._item(number, raw)
        except OSError as error:
            raise UsageError(f"programs {str(self._path)!r} cannot be read: {error.strerror}") from error

    def _item(self, number: int, raw: bytes) -> Item:
        try:
            line = _decoder.decode(raw)
            files = tuple(File(name=name, data=_data(said)) for name, said in line.files.items())
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            raise self._wrong(number, str(error)) from error
        if unknown := sorted(line.limits.keys() - _LIMITS):
            raise self._wrong(number, f"no limit {unknown[0]!r}; there are {', '.join(sorted(_LIMITS))}")
        # Any: each limit has its own type, and all are numbers.
        said: dict[str, Any] = {
            key: float(value) if key == "wall_seconds" else int(value) for key, value in line.limits.items()
        }
        return Item(
            text=line.program, tag=str(number if line.id is None else line.id), files=files, seed=line.seed,
            tools=line.tools, limits=replace(self._usual, **said) if said else self._usual, session=line.session,
            keep_names=line.keep_names, stdin=line.stdin, clock=line.clock,
        )  # fmt: skip

    def _wrong(self, number: int, what: str) -> UsageError:
        return UsageError(f"{str(self._path)!r} line {number}: {what}")


def _data(said: str | dict[str, str]) -> bytes:
    if isinstance(said, str):
        return said.encode()
    if said.keys() != {"base64"}:
        raise ValueError('a file is a text or {"base64": "..."}')
    return base64.b64decode(said["base64"], validate=True)


class Results:
    """The output: appended to, one write per line, so that a kill leaves at most a part of the last line."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def add(self, name: str, outcome: Outcome) -> None:
        """One more result, on its way to the disk when this returns."""
        text = json.dumps({"id": name, **outcome.to_dict()}, ensure_ascii=False, allow_nan=False)
        left = memoryview(text.encode("utf-8", "backslashreplace") + b"\n")
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError as error:
            raise UsageError(f"results {str(self._path)!r} cannot be written: {error.strerror}") from error

    def earlier(self) -> Iterator[dict[str, Json]]:
        """What an earlier start of the batch wrote. A part of a line, which a kill left, is taken off.

        Raises:
            UsageError: it is not a file of results.
        """
        number, whole = 0, 0
        with open(os.dup(self._descriptor), "rb") as opened:
            opened.seek(0)
            for raw in opened:
                if not raw.endswith(b"\n"):
                    break
                number, whole = number + 1, whole + len(raw)
                yield self._result(number, raw)
        os.ftruncate(self._descriptor, whole)

    def _result(self, number: int, raw: bytes) -> dict[str, Json]:
        try:
            found = json.loads(raw)
            if isinstance(found["id"], str) and isinstance(found["status"], str):
                return dict(found)
        except (ValueError, KeyError, TypeError):
            pass
        raise UsageError(f"{str(self._path)!r} line {number} is not a result of a batch; name another file with --out")


@contextmanager
def open_results(path: Path) -> Iterator[Results]:
    """The output, for this process alone.

    Raises:
        UsageError: it cannot be written, or another process writes it.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UsageError(f"results {str(path)!r} cannot be written: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"another batch writes {str(path)!r}; wait for it, or name another file") from error
        except OSError as error:
            reason = (error.strerror or "unknown reason").lower()
            raise UsageError(f"results {str(path)!r} cannot be locked: {reason}; put them on a local disk") from error
        yield Results(descriptor, path)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
