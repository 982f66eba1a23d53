"""Indexes of documents on disk, by the digest of what they were made from, so that a large one is read once.

A file that this version did not write, or that another user could have written, is ignored and made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from toolfold.sources.openapi.model import VERSION, Index

_MOST_FILES: Final = 50
_SMALL_BYTES: Final = 64 * 1024
"""A document of this size is read in less time than its index."""


class Store:
    """One file for each document, in a folder for the user alone. Never fails: without the folder it forgets."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or platformdirs.user_cache_path("toolfold", appauthor=False) / "openapi"

    def get(self, document: bytes) -> Index | None:
        """The index of a document, if there is one that can be trusted."""
        if len(document) <= _SMALL_BYTES:
            return None
        try:
            index = msgspec.msgpack.decode(_read(self._path(document)), type=Index)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return index if index.version == VERSION else None

    def put(self, document: bytes, index: Index) -> None:
        """Keep it, and let go of those that were made longest ago."""
        if len(document) <= _SMALL_BYTES:
            return
        path = self._path(document)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(msgspec.msgpack.encode(index))
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
            for old in sorted(self._folder.glob("*.index"), key=lambda one: one.lstat().st_mtime)[:-_MOST_FILES]:
                old.unlink(missing_ok=True)

    def _path(self, document: bytes) -> Path:
        return self._folder / f"{hashlib.sha256(document).hexdigest()[:40]}.v{VERSION}.index"


def _read(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        is_ours = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o022)
        if not stat.S_ISREG(found.st_mode) or not is_ours:
            raise PermissionError
        return file.read()
