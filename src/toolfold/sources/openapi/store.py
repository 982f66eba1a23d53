"""What is kept of documents on disk: their indexes, so that a large one is read once, and copies of fetched ones.

A file that this version did not write, or that another user could have written, is ignored and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import platformdirs

from toolfold.sources.openapi.model import VERSION, Index

_MOST_FILES: Final = 50
_SMALL_BYTES: Final = 64 * 1024
"""A document of this size is read in less time than its index."""


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """A document as it was fetched, and what its server knows that state by."""

    url: str
    content: bytes
    etag: str = ""
    modified: str = ""

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Headers that ask for the document only if it is another."""
        given = (("If-None-Match", self.etag), ("If-Modified-Since", self.modified))
        return tuple(pair for pair in given if pair[1])


class Store:
    """A few files for each document, in a folder for the user alone. Never fails: without the folder it forgets."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or platformdirs.user_cache_path("toolfold", appauthor=False) / "openapi"

    def get(self, document: bytes) -> Index | None:
        """The index of a document, if there is one that can be trusted."""
        if len(document) <= _SMALL_BYTES:
            return None
        index = _decoded(self._path(document, "index"), Index)
        return index if index is not None and index.version == VERSION else None

    def put(self, document: bytes, index: Index) -> None:
        """Keep it, and let go of those that were made longest ago."""
        if len(document) > _SMALL_BYTES:
            self._write(self._path(document, "index"), index)

    def copy_of(self, url: str) -> Copy | None:
        """What was fetched from there the last time."""
        copy = _decoded(self._path(url.encode(), "copy"), Copy)
        return copy if copy is not None and copy.url == url else None

    def keep(self, copy: Copy) -> None:
        """Keep a document that was fetched."""
        self._write(self._path(copy.url.encode(), "copy"), copy)

    def _write(self, path: Path, value: Index | Copy) -> None:
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(msgspec.msgpack.encode(value))
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
            alike = sorted(self._folder.glob(f"*{path.suffix}"), key=lambda one: one.lstat().st_mtime)
            for old in alike[:-_MOST_FILES]:
                old.unlink(missing_ok=True)

    def _path(self, source: bytes, kind: str) -> Path:
        return self._folder / f"{hashlib.sha256(source).hexdigest()[:40]}.v{VERSION}.{kind}"


_Kept = TypeVar("_Kept", Index, Copy)


def _decoded(path: Path, kind: type[_Kept]) -> _Kept | None:
    try:
        return msgspec.msgpack.decode(_read(path), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _read(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        is_ours = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
        if not stat.S_ISREG(found.st_mode) or not is_ours:
            raise PermissionError
        return file.read()
