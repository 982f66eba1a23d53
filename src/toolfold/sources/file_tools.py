"""Files under one root folder as tools: read, write, list, search. Nothing outside the folder is reachable.

A path is walked one part at a time from the root's own descriptor, and no symbolic link is followed,
so neither `..` nor a link nor a folder swapped in between leads out. On Windows, where no folder can be
opened, each part is looked at before it is used: what is swapped in between by another program is not noticed.
"""

from __future__ import annotations

import asyncio
import errno
import fnmatch
import itertools
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from toolfold.errors import ToolError, UsageError
from toolfold.file_locks import O_CLOEXEC, O_NOFOLLOW
from toolfold.models import MIB, Json, ToolSpec, Value
from toolfold.tools.tool import Tool, python_name

_MOST_ENTRIES: Final = 10_000
_MOST_HITS: Final = 200
_SHOWN_LINE_CHARACTERS: Final = 300


def file_tools(
    name: str, root: str | os.PathLike[str], *, write: bool = False, max_bytes: int = 10 * MIB
) -> list[Tool]:
    """The tools `<name>_read_file`, `<name>_list_files`, `<name>_search_files` and, if wanted, `<name>_write_file`.

    Args:
        name: Before each tool's name, and the module they are in: `from tools.<name> import ...`.
        root: The folder; it must exist.
        write: Whether files may also be written.
        max_bytes: Limit of one file.

    Raises:
        UsageError: the root is no folder.
    """
    if not Path(root).is_dir():
        raise UsageError(f"folder {os.fspath(root)!r} is not a folder; create it first")
    folder = _Folder(Path(root), max_bytes)
    tools = [
        _tool(
            name, "read_file", folder.read, "Read one file; bytes where it is not UTF-8 text.",
            {"path": _text("Relative to the folder.")}, ["path"], changes=False,
        ),
        _tool(
            name, "list_files", folder.list_files, "All files below a folder, as path and size in bytes.",
            {"path": {**_text("Where to begin."), "default": "."}, "pattern": _pattern()}, [], changes=False,
        ),
        _tool(
            name, "search_files", folder.search,
            f"Lines that contain a text, as path, line and text; at most {_MOST_HITS}.",
            {"query": _text("Looked for as it is, in upper or lower case."), "pattern": _pattern()}, ["query"],
            changes=False,
        ),
    ]  # fmt: skip
    if write:
        tools.append(
            _tool(
                name, "write_file", folder.write, "Write a whole file; folders on the way are made.",
                {"path": _text("Relative to the folder."), "content": _text("What the file then holds.")},
                ["path", "content"], changes=True,
            )
        )  # fmt: skip
    return tools


# ----------------------------------------------------------------------------------------------------
# Folders that are open, and files in them.

Folder: TypeAlias = int | str
"""A descriptor; where a system opens no folder, its path."""

_HAS_DESCRIPTORS: Final = os.open in os.supports_dir_fd
_FOLDER: Final[int] = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | O_CLOEXEC
_REFUSED_ON_WINDOWS: Final = re.compile(
    r'(con|prn|aux|nul|(com|lpt)[0-9¹²³]|conin\$|conout\$)(\..*)?|.*[<>:"\\|?*].*|.*[. ]', re.IGNORECASE | re.DOTALL
)
"""Devices, streams of a file, drives, and names that would become others."""


def open_root(path: str | os.PathLike[str]) -> Folder:
    """A folder by its path. It is closed with `close_folder`."""
    if _HAS_DESCRIPTORS:
        return os.open(path, _FOLDER)
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", os.fspath(path))
    return os.path.abspath(path)


def open_folder(name: str, parent: Folder, *, make: bool = False) -> Folder:
    """A folder in another one; never through a link. With `make`, it is created if needed."""
    path, descriptor = _place(name, parent)
    if make:
        with suppress(FileExistsError):
            os.mkdir(path, dir_fd=descriptor)
    if descriptor is not None:
        return os.open(path, _FOLDER | O_NOFOLLOW, dir_fd=descriptor)
    if not stat.S_ISDIR(_status(name, parent).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
    return path


def close_folder(folder: Folder) -> None:
    if isinstance(folder, int):
        os.close(folder)


def replace_file(name: str, data: bytes, folder: Folder) -> None:
    """Write a file in an open folder, whole or not at all; a link that stands there is replaced, not followed."""
    path, descriptor = _place(name, folder)
    part, _ = _place(f".{secrets.token_hex(8)}", folder)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_CLOEXEC, 0o644, dir_fd=descriptor)
    try:
        with open(handle, "wb") as file:
            file.write(data)
        os.replace(part, path, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    except BaseException:
        os.unlink(part, dir_fd=descriptor)
        raise


def _place(name: str, folder: Folder) -> tuple[str, int | None]:
    """Path and `dir_fd` of what has this name in an open folder."""
    if isinstance(folder, int):
        return name, folder
    if _REFUSED_ON_WINDOWS.fullmatch(name) and name != ".":
        raise OSError(errno.EINVAL, "Windows does not allow this name")
    return os.path.join(folder, name), None


def _status(name: str, folder: Folder) -> os.stat_result:
    """Of what has this name, itself; a folder that leads elsewhere, as Windows has them, counts as a link."""
    path, descriptor = _place(name, folder)
    status = os.stat(path, dir_fd=descriptor, follow_symlinks=False)
    if getattr(status, "st_reparse_tag", 0) and stat.S_ISDIR(status.st_mode):
        raise OSError(errno.ELOOP, "a link", path)
    return status


# ----------------------------------------------------------------------------------------------------
# The tools.


def _text(description: str) -> dict[str, Json]:
    return {"type": "string", "description": description}


def _pattern() -> dict[str, Json]:
    return {**_text("Only files whose path fits it, such as '*.py' or 'src/*'."), "default": "*"}


# Any: each operation takes what its schema says and returns JSON.
def _tool(
    prefix: str, name: str, operation: Callable[..., Any], description: str, properties: Mapping[str, Json],
    required: list[str], changes: bool,
) -> Tool:  # fmt: skip
    async def call(arguments: Mapping[str, Any]) -> Value:
        return await asyncio.to_thread(operation, **arguments)

    full_name = f"{prefix}_{name}"
    schema = {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}
    spec = ToolSpec(
        name=full_name,
        python_name=python_name(full_name),
        domain=python_name(prefix),
        short_name=name,
        description=description,
        input_schema=schema,
        # Without one the router would parse a file that looks like JSON.
        output_schema={} if name == "read_file" else None,
        source="files",
        read_only=not changes,
        idempotent=True,
        destructive=changes,
    )
    return Tool(spec=spec, call=call)


@dataclass(frozen=True, slots=True)
class _Folder:
    root: Path
    max_bytes: int

    def read(self, path: str) -> Value:
        with self._parent(path) as (folder, last):
            data = self._read(folder, last, path)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    def write(self, path: str, content: str) -> dict[str, Json]:
        data = content.encode()
        if len(data) > self.max_bytes:
            raise ToolError(f"{path!r} would take {len(data)} bytes; the limit is {self.max_bytes}")
        with self._parent(path, make=True) as (folder, last):
            replace_file(last, data, folder)
        return {"path": path, "size": len(data)}

    def list_files(self, path: str = ".", pattern: str = "*") -> list[dict[str, Json]]:
        files = ({"path": name, "size": size} for name, size in self._walk(path) if _matches(name, pattern))
        return list(itertools.islice(files, _MOST_ENTRIES))

    def search(self, query: str, pattern: str = "*") -> list[dict[str, Json]]:
        if not query:
            raise ToolError("query is empty; give the text to look for")
        return list(itertools.islice(self._hits(query.casefold(), pattern), _MOST_HITS))

    def _hits(self, needle: str, pattern: str) -> Iterator[dict[str, Json]]:
        for name, size in self._walk("."):
            if size > self.max_bytes or not _matches(name, pattern):
                continue
            with self._parent(name) as (folder, last):
                data = self._read(folder, last, name)
            # A file with a zero byte is no text.
            if b"\0" in data[:8192]:
                continue
            for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
                if needle in line.casefold():
                    yield {"path": name, "line": number, "text": line[:_SHOWN_LINE_CHARACTERS]}

    def _read(self, folder: Folder, last: str, path: str) -> bytes:
        place, folder_descriptor = _place(last, folder)
        try:
            if folder_descriptor is None and not stat.S_ISREG(_status(last, folder).st_mode):
                raise ToolError(f"{path!r} is not a file")
            # Not blocking: a pipe in its place must not hold the tool for ever.
            flags = os.O_RDONLY | O_NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | O_CLOEXEC
            descriptor = os.open(place, flags, dir_fd=folder_descriptor)
        except OSError as error:
            raise _open_error(error, path) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise ToolError(f"{path!r} is not a file")
        with open(descriptor, "rb") as file:
            data = file.read(self.max_bytes + 1)
        if len(data) > self.max_bytes:
            raise ToolError(f"{path!r} has {status.st_size} bytes; the limit is {self.max_bytes}")
        return data

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[Folder, str]]:
        """The open folder that a path ends in, and its last part."""
        *folders, last = self._parts(path) or ["."]
        with self._open_folder(folders, path, make=make) as folder:
            if last == ".":
                raise ToolError(f"{path!r} is a folder; name a file in it")
            yield folder, last

    @contextmanager
    def _open_folder(self, parts: list[str], path: str, *, make: bool = False) -> Iterator[Folder]:
        current = open_root(self.root)
        try:
            for part in parts:
                try:
                    inner = open_folder(part, current, make=make)
                except OSError as error:
                    raise _open_error(error, path) from error
                close_folder(current)
                current = inner
            yield current
        finally:
            close_folder(current)

    @staticmethod
    def _parts(path: str) -> list[str]:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in parts or "\0" in path:
            raise ToolError(f"{path!r} is outside the folder; give a path below it, without '..'")
        return parts

    def _walk(self, path: str) -> Iterator[tuple[str, int]]:
        """Regular files below a folder, by their path from the root, in order of names; links are left out."""
        parts = self._parts(path)
        with self._open_folder(parts, path) as folder:
            entries = sorted(os.listdir(folder))
            statuses = [(name, _status(name, folder)) for name in entries]
        for name, status in statuses:
            inner = "/".join([*parts, name])
            if stat.S_ISREG(status.st_mode):
                yield inner, status.st_size
            elif stat.S_ISDIR(status.st_mode):
                yield from self._walk(inner)


def _open_error(error: OSError, path: str) -> ToolError:
    if isinstance(error, FileNotFoundError):
        return ToolError(f"no file {path!r}")
    if isinstance(error, NotADirectoryError) or error.errno == errno.ELOOP:
        return ToolError(f"{path!r} goes through a link or a file; links are not followed")
    return ToolError(f"{path!r} cannot be opened: {(error.strerror or 'unknown reason').lower()}")


def _matches(path: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)
