"""File collection from a guest's data folder, which is hostile: links, pipes and holes stay there."""

from __future__ import annotations

import mimetypes
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from toolfold.errors import UsageError
from toolfold.models import File, Limits
from toolfold_guest.shared.value_rules import is_text

MAX_FOLDERS_DEEP = 8
MAX_NOTES = 20
"""Notes go to the model: a program must not fill its context with names of files."""
_SHOWN_CHARACTERS = 120
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FolderContents(NamedTuple):
    """Contents of a data folder at the end of a program."""

    files: tuple[File, ...]
    """Those that are new or changed, by name."""
    names: frozenset[str]
    """Of all regular files, the unchanged ones and those left out too."""
    hidden: tuple[str, ...]
    """What could not be looked at, files and folders; an empty name is all of it. Nothing there counts as deleted."""
    notes: tuple[str, ...]
    """One for each thing left out."""

    def missing(self, had: Iterable[str]) -> frozenset[str]:
        """Earlier files that certainly no longer exist."""
        missing_names = frozenset(had) - self.names
        return frozenset(name for name in missing_names if not any(_is_under(name, place) for place in self.hidden))


def collect(data_fd: int, initial_files: Mapping[str, bytes], limits: Limits) -> FolderContents:
    """Read the regular files of a data folder, within the limits."""
    files: list[File] = []
    names: set[str] = set()
    notes: list[str] = []
    hidden: list[str] = []
    room = limits.data_bytes
    for name, fd in _walk(data_fd, "", 0, notes, hidden, [limits.data_files]):
        names.add(name)
        try:
            # Of the open file, not of its name: the name may lead elsewhere by now.
            size = os.fstat(fd).st_size
            if size > room:
                notes.append(f"left out {_quote_path(name)}: {size} bytes, with {room} left of the limit")
                continue
            data = _read(fd, size)
        finally:
            os.close(fd)
        # What the caller gave and the program left alone is no product of it.
        if initial_files.get(name) != data:
            files.append(File(name=name, data=data, mime=mime_of(name, data)))
            room -= len(data)
    if len(notes) > MAX_NOTES:
        notes[MAX_NOTES:] = [f"left out {len(notes) - MAX_NOTES} more"]
    return FolderContents(
        tuple(sorted(files, key=lambda file: file.name)), frozenset(names), tuple(hidden), tuple(notes)
    )


def mime_of(name: str, data: bytes) -> str:
    """By the name, else text or bytes by a look at the start."""
    guessed = mimetypes.guess_type(name)[0]
    if guessed is not None:
        return guessed
    return "application/octet-stream" if b"\0" in data[:1024] else "text/plain"


def checked_names(files: Iterable[File]) -> None:
    """Refuse names that would leave the data folder, before a guest sees them."""
    for file in files:
        parts = file.name.split("/")
        if not file.name or file.name.startswith("/") or "\0" in file.name or any(p in ("", ".", "..") for p in parts):
            raise UsageError(f"file name {file.name!r} does not stay in the data folder; give a plain relative name")


def _is_under(name: str, place: str) -> bool:
    return not place or name == place or name.startswith(f"{place}/")


def _walk(
    folder_fd: int, prefix: str, depth: int, notes: list[str], hidden: list[str], file_budget: list[int]
) -> Iterator[tuple[str, int]]:
    """Open each regular file without following a link; a hostile name costs a note, never an error."""
    for name in sorted(os.listdir(folder_fd)):
        path = prefix + name
        # A tmpfs has room for more names than anyone wants to read; counted over all folders.
        if file_budget[0] <= 0:
            notes.append(f"left out {_quote_path(path)} and what follows: too many files")
            hidden.append("")
            return
        file_budget[0] -= 1
        try:
            # Relative to the folder that is open: a folder that becomes a link meanwhile is not followed.
            fd = os.open(name, _OPEN, dir_fd=folder_fd)
        except OSError:
            notes.append(f"left out {_quote_path(path)}: not a file that can be read")
            hidden.append(path)
            continue
        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode):
            if is_text(path):
                yield path, fd
                continue
            notes.append(f"left out {_quote_path(path)}: its name is not text")
        elif stat.S_ISDIR(mode) and depth < MAX_FOLDERS_DEEP:
            # Caches of the interpreter and of matplotlib, which the program did not ask for.
            if name not in ("__pycache__", ".matplotlib"):
                yield from _walk(fd, path + "/", depth + 1, notes, hidden, file_budget)
        else:
            notes.append(f"left out {_quote_path(path)}: not a regular file")
            hidden.append(path)
        os.close(fd)


def _quote_path(path: str) -> str:
    return repr(path if len(path) <= _SHOWN_CHARACTERS else f"{path[:_SHOWN_CHARACTERS]}...")


def _read(fd: int, size: int) -> bytes:
    """At most `size` bytes: a file that grows while it is read is cut there."""
    chunks = []
    while size > 0:
        chunk = os.read(fd, size)
        if not chunk:
            break
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
