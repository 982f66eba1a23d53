"""Private files in folders of the user: caches, token files. Read only if this user wrote them, written whole.

What another user could have written, or a link or a pipe in its place, is refused.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from pathlib import Path
from typing import Final

_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


class FileRefused(Exception):
    """Reason why a file cannot be trusted."""


def read_private_file(path: Path, *, max_bytes: int) -> bytes:
    """Contents of a plain file that only this user can write; `FileRefused` for any other, or one that is too large."""
    if sys.platform == "win32" and path.is_symlink():  # where `os.open` follows links
        raise FileRefused("it is no plain file")
    try:
        fd = os.open(path, _READ)
    except OSError as error:
        if path.is_symlink():
            raise FileRefused("it is no plain file") from error
        raise
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise FileRefused("it is no plain file")
        if status.st_size > max_bytes:
            raise FileRefused(f"it has more than {max_bytes} bytes")
        if hasattr(os, "getuid"):
            if status.st_uid != os.getuid():
                raise FileRefused("it belongs to another user")
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                raise FileRefused("other users can write to it")
        return file.read(max_bytes)


def write_private_file(path: Path, data: bytes) -> None:
    """Replace a file at once or not at all; it is the user's alone from its first moment, like a new folder."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def drop_oldest_files(folder: Path, pattern: str, *, keep: int) -> None:
    files = sorted(folder.glob(pattern), key=lambda path: path.lstat().st_mtime, reverse=True)
    for file in files[keep:]:
        file.unlink(missing_ok=True)
