"""Stores of session files: in memory, or in a folder that several processes may share.

1. A change names single files. What others did to other files in the meantime stays.
2. One change of a session is made at a time, across threads and processes; it is seen whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypedDict

from toolfold.file_locks import lock_folder
from toolfold.models import File

_READS: Final = 10
_INDEX: Final = "index.json"
_LOCK: Final = ".lock"
_PART_SECONDS: Final = 3600.0
"""Age beyond which a part of a file was left by a process that was killed."""

_log = logging.getLogger("toolfold.sessions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Changes to single files of a session."""

    put: Sequence[File] = ()
    """New files; one of the same name is replaced."""
    remove: Mapping[str, str] = field(default_factory=dict)
    """Names with the digest of each; another file that has taken the name since stays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFile:
    """File of a session that is not read yet."""

    name: str
    mime: str
    size: int
    digest: str
    open: Callable[[], BinaryIO]
    """Raises `FileNotFoundError` where the file was changed since."""


class TooLarge(Exception):
    """A session would have more bytes than it may; nothing was changed."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class FileStore(Protocol):
    """Store of session files."""

    def load(self, session: str) -> tuple[File, ...]: ...
    def listed(self, session: str) -> tuple[SessionFile, ...]:
        """The same, without reading them."""

    def merge(self, session: str, change: Change, *, max_bytes: int) -> None:
        """Change files in one step, without any only the time of the last save; `TooLarge` if new ones do not fit."""

    def delete(self, session: str, *, before: float | None = None) -> None:
        """Delete a session, unless it was saved since `before`; harmless if there is none."""

    def ages(self) -> dict[str, float]:
        """Time of the last save of each session, in seconds since 1970."""

    def sizes(self) -> dict[str, int]: ...
    def saved_at(self, session: str) -> float:
        """Time of one session's last save; 0 if it has saved nothing."""


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class MemoryStore:
    """Files that end with the process."""

    def __init__(self) -> None:
        self._sessions: dict[str, tuple[float, tuple[File, ...]]] = {}
        self._writing = threading.Lock()

    def load(self, session: str) -> tuple[File, ...]:
        return self._sessions.get(session, (0.0, ()))[1]

    def listed(self, session: str) -> tuple[SessionFile, ...]:
        return tuple(
            SessionFile(
                name=file.name, mime=file.mime, size=file.size, digest=digest_of(file.data),
                open=partial(io.BytesIO, file.data),
            )
            for file in self.load(session)
        )  # fmt: skip

    def merge(self, session: str, change: Change, *, max_bytes: int) -> None:
        with self._writing:
            files = {file.name: file for file in self.load(session)}
            for name, digest in change.remove.items():
                if name in files and digest_of(files[name].data) == digest:
                    del files[name]
            files.update({file.name: file for file in change.put})
            size = sum(file.size for file in files.values())
            if change.put and size > max_bytes:
                raise TooLarge(size)
            if files or session in self._sessions:
                self._sessions[session] = (time.time(), tuple(files.values()))

    def delete(self, session: str, *, before: float | None = None) -> None:
        with self._writing:
            if before is None or self.saved_at(session) < before:
                self._sessions.pop(session, None)

    def ages(self) -> dict[str, float]:
        return {session: saved_at for session, (saved_at, _) in self._sessions.items()}

    def sizes(self) -> dict[str, int]:
        return {session: sum(file.size for file in files) for session, (_, files) in tuple(self._sessions.items())}

    def saved_at(self, session: str) -> float:
        return self._sessions.get(session, (0.0, ()))[0]


class _Entry(TypedDict):
    name: str
    mime: str
    stored: str
    """Its digest, which is its name in the folder."""


class FolderStore:
    """Files on disk, one folder for each session. Names are in an index: none becomes a path.

    Several processes may share the folder, on one machine or on a shared file system with `flock`.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._writing = threading.Lock()

    def load(self, session: str) -> tuple[File, ...]:
        folder = self._of(session)
        for _ in range(_READS):
            entries = _index(folder)
            if not entries:
                return ()
            # What an index names may go when it is changed; then there is a new index.
            with suppress(FileNotFoundError):
                return tuple(_file(folder, entry) for entry in entries.values())
        with self._locked(folder):
            return tuple(self._those_there(session, folder))

    def listed(self, session: str) -> tuple[SessionFile, ...]:
        folder = self._of(session)
        return tuple(
            SessionFile(
                name=entry["name"], mime=entry["mime"], size=_size(folder / entry["stored"]), digest=entry["stored"],
                open=partial(_open, folder / entry["stored"]),
            )
            for entry in _index(folder).values()
        )  # fmt: skip

    def _those_there(self, session: str, folder: Path) -> Iterator[File]:
        for entry in _index(folder).values():
            try:
                yield _file(folder, entry)
            except FileNotFoundError:
                _log.error("the file %r of session %r is lost: it is listed but missing", entry["name"], session)

    def merge(self, session: str, change: Change, *, max_bytes: int) -> None:
        folder = self._of(session)
        if not change.put and not change.remove:
            with suppress(FileNotFoundError):
                os.utime(folder / _INDEX)
            return
        parts: dict[str, Path] = {}
        try:
            # Before its turn: large files take their time, and others need not wait for that.
            for file in change.put:
                digest = digest_of(file.data)
                if digest not in parts:
                    folder.mkdir(exist_ok=True, mode=0o700)
                    parts[digest] = _part(folder / digest, file.data)
            with self._locked(folder):
                self._apply(session, folder, change, parts, max_bytes)
        finally:
            for part in parts.values():
                part.unlink(missing_ok=True)

    def _apply(self, session: str, folder: Path, change: Change, parts: Mapping[str, Path], max_bytes: int) -> None:
        entries = _index(folder)
        for name, digest in change.remove.items():
            if name in entries and entries[name]["stored"] == digest:
                del entries[name]
        remaining_bytes = sum(
            _size(folder / entries[name]["stored"]) for name in entries.keys() - {file.name for file in change.put}
        )
        size = remaining_bytes + sum(file.size for file in change.put)
        if change.put and size > max_bytes:
            if not (folder / _INDEX).exists():
                shutil.rmtree(folder, ignore_errors=True)  # it would have been the first
            raise TooLarge(size)
        for digest, part in parts.items():
            part.replace(folder / digest)
        for file in change.put:
            entries[file.name] = {"name": file.name, "mime": file.mime, "stored": digest_of(file.data)}
        index = _part(folder / _INDEX, json.dumps({"session": session, "files": [*entries.values()]}).encode())
        index.replace(folder / _INDEX)
        _tidy(folder, {entry["stored"] for entry in entries.values()})

    def delete(self, session: str, *, before: float | None = None) -> None:
        folder = self._of(session)
        if folder.exists():
            with self._locked(folder):
                if before is None or self.saved_at(session) < before:
                    shutil.rmtree(folder, ignore_errors=True)

    def ages(self) -> dict[str, float]:
        return {content["session"]: saved_at for _, content, saved_at in self._indexes()}

    def sizes(self) -> dict[str, int]:
        return {
            content["session"]: sum(_size(folder / entry["stored"]) for entry in content["files"])
            for folder, content, _ in self._indexes()
        }

    # Any: the content of an index.
    def _indexes(self) -> Iterator[tuple[Path, dict[str, Any], float]]:
        for index in self._folder.glob(f"*/{_INDEX}"):
            with suppress(FileNotFoundError):  # deleted by another process
                yield index.parent, json.loads(index.read_text("utf-8")), index.stat().st_mtime

    def saved_at(self, session: str) -> float:
        try:
            return (self._of(session) / _INDEX).stat().st_mtime
        except FileNotFoundError:
            return 0.0

    @contextmanager
    def _locked(self, folder: Path) -> Iterator[None]:
        """Hold the write lock of a session's folder, which is created if needed."""
        with self._writing:
            handle = lock_folder(folder, _LOCK)
            try:
                yield
            finally:
                os.close(handle)
                if sys.platform == "win32" and [path.name for path in folder.glob("*")] == [_LOCK]:
                    # It was deleted, but for the file that was open.
                    with suppress(OSError):
                        (folder / _LOCK).unlink()
                        folder.rmdir()

    def _of(self, session: str) -> Path:
        return self._folder / base64.b32encode(hashlib.sha256(session.encode()).digest()).decode().rstrip("=").lower()


def _index(folder: Path) -> dict[str, _Entry]:
    try:
        content = json.loads((folder / _INDEX).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return {entry["name"]: entry for entry in content["files"]}


def _file(folder: Path, entry: _Entry) -> File:
    return File(name=entry["name"], mime=entry["mime"], data=(folder / entry["stored"]).read_bytes())


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # lost; `load` says so


def _part(path: Path, data: bytes) -> Path:
    """Write the bytes beside their place, to be moved there: a reader never sees half a file."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")  # a process id is used in other containers, too
    try:
        part.write_bytes(data)
    except BaseException:
        part.unlink(missing_ok=True)  # the disk may be full, and half a file would keep it so
        raise
    return part


def _tidy(folder: Path, used: set[str]) -> None:
    """Delete files that the index does not name, except parts that another process may still write."""
    # By the clock that dates the files, which may be another machine's: the index was written a moment ago.
    oldest = (folder / _INDEX).stat().st_mtime - _PART_SECONDS
    for path in folder.iterdir():
        is_part = path.name.startswith(".")
        with suppress(FileNotFoundError):
            if path.name in used | {_INDEX, _LOCK} or (is_part and path.stat().st_mtime > oldest):
                continue
            path.unlink()
