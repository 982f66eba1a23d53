"""Value conversion between Monty and the host, and the in-memory data folder of a program."""

from __future__ import annotations

import errno
import mimetypes
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any, Final, Protocol
from uuid import UUID

import msgspec

from toolfold.models import MIB, File, Limits, Media, Value
from toolfold_guest.shared.value_rules import ValueWalk, simplify, text_of

# Monty hands these out as text; no program prints its own data in these forms.
_STAND_IN: Final = re.compile(r"<(function|coroutine|module|bound method|iterator|built-in function)\b.*>")

_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")


_MEDIA_TYPE: Final = UUID("5f1f4c9e-6a53-4b0e-9d3c-7a4f2f1f0c11")
"""The same in every process, so that what a snapshot holds is of the same class as what comes after it."""


class UnsendableError(TypeError):
    """A value has no form that crosses the wall; the text names its type and its place."""


def plain(
    value: Any, path: str, *, media: Container[UUID] = (), notes: list[str] | None = None, depth: int = 0
) -> Value:
    """A value of the program as JSON values, bytes and media; `path` says where it is in an error.

    Args:
        value: As Monty hands it out.
        path: Its name in an error.
        media: The ids of those that the program was given: after a snapshot they come back as stand-ins.
        notes: If given, nothing is refused: what has no form becomes its text, and a note is added.
        depth: How many lists and dicts it is in already.
    """
    converted: Value = _Walk(media, notes).plain(value, path, depth)
    return converted


class _Walk(ValueWalk):
    error = UnsendableError
    leaves = (bytes, Media)

    def __init__(self, media: Container[UUID], notes: list[str] | None) -> None:
        super().__init__(notes)
        self._media = media

    def text(self, value: str, path: str) -> str:
        stand_in = _STAND_IN.fullmatch(value)
        if stand_in:
            return self.unsendable(_ADDRESS.sub("", value.replace("'", "")), path, stand_in[1])
        return super().text(value, path)

    def rich_object(self, value: Any, path: str, depth: int, steps: int) -> Any:
        is_stand_in = hasattr(value, "attributes")
        if is_stand_in and getattr(value, "is_dataclass", False):
            is_media = value.id in self._media
            return Media(**value.attributes) if is_media else self.plain(value.attributes, path, depth)
        simpler = bytes(value) if isinstance(value, bytearray | memoryview) else simplify(value)
        if simpler is NotImplemented or is_stand_in:
            name = self.type_name(value)
            return self.unsendable(f"<{name} object>" if is_stand_in else text_of(value), path, name)
        return self.plain(simpler, path, depth, steps + 1)

    def type_name(self, value: Any) -> str:
        # Monty's stand-in for an instance of the program's own class carries the class's name.
        return str(value.name) if hasattr(value, "attributes") else super().type_name(value)


class MediaBox:
    """The media that a program was given: wrapped for Monty, which hands out stand-ins of them after a snapshot."""

    def __init__(self, monty: ModuleType, media_ids: Iterable[str]) -> None:
        self._monty = monty
        self.ids = {UUID(media_id) for media_id in media_ids}
        """Of all that were ever given."""

    def wrap(self, media: Media) -> object:
        kind = self._monty.ClassType(Media, id=_MEDIA_TYPE)
        wrapped = self._monty.ClassInstance(media, eager_attrs="all", class_type=kind)
        self.ids.add(wrapped.id)
        return wrapped


def for_guest(value: Value, wrap: Callable[[Media], object]) -> Any:
    """A reply as Monty takes it: itself, with each media in it wrapped."""
    if isinstance(value, Media):
        return wrap(value)
    if isinstance(value, list | tuple):
        return [for_guest(item, wrap) for item in value]
    if isinstance(value, Mapping):
        return {key: for_guest(item, wrap) for key, item in value.items()}
    return value


# ----------------------------------------------------------------------------------------------------
# A paused program on Monty as bytes: Monty's own dump, and what the driver held of it. Replies are not in it.
#
# Loading a dump that somebody made is running what they wrote: bytes come here only after their seal was opened.

FORMAT: Final = 1
MAX_SNAPSHOT_BYTES: Final = 8 * MIB
"""A program with a larger heap is replayed instead."""


class Timer(msgspec.Struct, array_like=True, frozen=True):
    """A sleep or a deadline that has not run out."""

    seconds_left: float
    call_id: int
    error: str


class Stored(msgspec.Struct, array_like=True, frozen=True):
    """A file of the program's own tree."""

    path: str
    data: bytes
    is_text: bool


class MontyState(msgspec.Struct, array_like=True, frozen=True):
    """Calls are known by two ids: ours, which count from 1, and Monty's."""

    dump: bytes
    calls: int
    replies_seen: int
    open: dict[int, int]
    """Calls without a reply: our id to Monty's."""
    pending_replies: dict[int, int]
    """Calls whose reply has come and was not taken yet: our id to Monty's. The reply is in the record."""
    settled: dict[int, str]
    """What the host settled itself and Monty has not taken yet: its id to an exception, or to nothing."""
    timers: list[Timer]
    waits_for: int
    """Our id of the synchronous call that the program stands in; 0 if it awaits."""
    kept_bytes: dict[str, int]
    files: list[Stored]
    folders: list[str]
    media: list[str]
    """Ids of the media that the program was given."""


def encode(state: MontyState) -> bytes:
    """The bytes for a snapshot; none if they would be too many."""
    size = len(state.dump) + sum(len(file.data) for file in state.files)
    return b"" if size > MAX_SNAPSHOT_BYTES else _encoder.encode(state)


def decode(body: bytes) -> MontyState:
    return _decoder.decode(body)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(MontyState, strict=False)


# ----------------------------------------------------------------------------------------------------
# The data folder of a program on Monty: held in memory, so that no path of the host is in reach.

FOLDER: Final = PurePosixPath("/mnt/data")
MAX_BYTES: Final = 16 * MIB
"""Each append copies its file in the host's memory; larger folders belong on the process engine."""

_WRITES: Final = frozenset({"Path.write_text", "Path.write_bytes", "Path.append_text", "Path.append_bytes"})
_CREATES: Final = _WRITES | {"open", "Path.mkdir"}
_REMOVES: Final = frozenset({"Path.unlink", "Path.rename"})
_MAX_PATH_CHARACTERS: Final = 1024


class _Stored(Protocol):
    path: PurePosixPath

    def read_content(self) -> str | bytes: ...


class DataFolder:
    """Answers Monty's file calls through its own in-memory folder, within the program's limits."""

    # Any: Monty's classes are imported in `monty.py` alone, and come in as values.
    def __init__(
        self, folder: Any, files: Iterable[File], limits: Limits, not_handled: object, folders: Collection[str] = ()
    ) -> None:
        self._folder = folder
        self._initial_files = {file.name: file.data for file in files}
        self._max_bytes = min(limits.data_bytes, MAX_BYTES)
        self._max_files = limits.data_files
        self._not_handled = not_handled
        self._spent_bytes = 0
        self._folders_made = 0
        # In the program's own tree, which is empty but for what a snapshot held.
        for path in (FOLDER, PurePosixPath("/tmp"), *map(PurePosixPath, folders)):
            folder.path_mkdir(path, parents=True, exist_ok=True)

        if folders:
            self._folders_made = len(folders)
            self._spent_bytes = sum(len(data) for data in self._now().values())

    def __call__(self, *, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], is_async: bool, **_: Any) -> Any:
        """One call of the program; the keywords are those of Monty's `OsHandler`."""
        if name != "open" and not name.startswith("Path."):
            return self._not_handled
        if name in _WRITES:
            self._spend(len(args[1]))
        if name in _CREATES:
            self._count(name, args[0])
        answer = self._folder(name=name, args=args, kwargs=kwargs, is_async=is_async)
        if name in _REMOVES:
            # Monty's folder keeps a deleted file, and its content, in the list.
            self._folder.files[:] = [file for file in self._folder.files if not file.deleted]
        return answer

    def produced(self) -> tuple[File, ...]:
        changes = {name: data for name, data in self._now().items() if self._initial_files.get(name) != data}
        return tuple(File(name=name, data=data, mime=_mime(name)) for name, data in sorted(changes.items()))

    def deleted(self) -> frozenset[str]:
        return frozenset(self._initial_files) - self._now().keys()

    def dump(self) -> tuple[list[Stored], list[str]]:
        contents = [(str(file.path), file.read_content()) for file in self._folder.files if not file.deleted]
        files = [
            Stored(path, data.encode() if isinstance(data, str) else data, isinstance(data, str))
            for path, data in contents
        ]
        return files, [str(path) for path in self._folders(PurePosixPath("/"))]

    def _folders(self, path: PurePosixPath) -> Iterator[PurePosixPath]:
        for inside in self._folder.path_iterdir(path):
            if self._folder.path_is_dir(inside):
                yield inside
                yield from self._folders(inside)

    def _spend(self, size: int) -> None:
        self._spent_bytes += size
        if self._spent_bytes > self._max_bytes:
            # Overwritten and deleted files were counted too: look at what is really there.
            self._spent_bytes = sum(len(data) for data in self._now().values()) + size
        if self._spent_bytes > self._max_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _count(self, name: str, path: Any) -> None:
        if len(str(path)) > _MAX_PATH_CHARACTERS:
            raise OSError(errno.ENAMETOOLONG, "File name too long")
        if name == "Path.mkdir":
            self._folders_made += len(PurePosixPath(path).parts)
        elif not isinstance(path, PurePosixPath) or self._folder.path_exists(path):
            return
        if len(self._folder.files) + self._folders_made > self._max_files:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _now(self) -> dict[str, bytes]:
        stored: list[_Stored] = [file for file in self._folder.files if file.path.is_relative_to(FOLDER)]
        contents = {str(file.path.relative_to(FOLDER)): file.read_content() for file in stored}
        return {name: data.encode() if isinstance(data, str) else data for name, data in contents.items()}


def _mime(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
