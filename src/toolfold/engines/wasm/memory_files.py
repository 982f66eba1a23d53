"""Files in memory: the trees that the instances of the wasm engine see, and what they may take.

Knows nothing of paths that a guest names, nor of its descriptors.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

NO_SPACE, READ_ONLY = 51, 69  # as WASI numbers its errors


class WasiError(Exception):
    """The call fails with this number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class FileQuota:
    """Bytes and files that a tree may still take."""

    __slots__ = ("bytes", "files")

    def __init__(self, size: int, files: int) -> None:
        self.bytes, self.files = size, files

    def take(self, size: int, files: int = 0) -> None:
        if size > self.bytes or files > self.files:
            raise WasiError(NO_SPACE)
        self.bytes -= size
        self.files -= files


class FileNode:
    """A file or a folder. One without a quota is read-only."""

    __slots__ = ("children", "data", "inode", "is_linked", "modified", "open_count", "quota")
    _count = 0

    def __init__(self, data: Any = None, *, quota: FileQuota | None = None) -> None:
        FileNode._count += 1
        self.inode = FileNode._count
        self.data = data
        """Of a file; `None` of a folder."""
        self.children: dict[str, FileNode] | None = {} if data is None else None
        self.quota = quota
        self.modified = time.time_ns()
        self.open_count = 0
        self.is_linked = True

    @property
    def size(self) -> int:
        return 0 if self.data is None else len(self.data)

    def resize(self, size: int) -> None:
        if self.quota is None:
            raise WasiError(READ_ONLY)
        growth = size - len(self.data)
        self.quota.take(growth)
        if growth > 0:
            self.data += bytes(growth)
        else:
            del self.data[size:]
        self.modified = time.time_ns()

    def free_if_gone(self) -> None:
        if not self.is_linked and not self.open_count and self.quota is not None:
            self.quota.bytes += self.size
            self.quota.files += 1
            self.quota = None

    def place(self, path: str, child: FileNode) -> tuple[FileNode, ...]:
        """Put a node there, for the host itself; the folders on the way, which are made if they are missing."""
        *folders, last = path.strip("/").split("/")
        way = [self]
        for name in folders:
            children = way[-1].children
            if children is None:  # below a file: as a mount of its own it is found all the same
                return tuple(way)
            way.append(children.setdefault(name, FileNode()))
        if way[-1].children is not None:
            way[-1].children[last] = child
        return tuple(way)


class NullFile(FileNode):
    """`/dev/null`: takes all and keeps nothing."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(b"", quota=FileQuota(0, 0))

    def resize(self, size: int) -> None:
        return


class Mount(NamedTuple):
    """Where a guest finds a node."""

    path: str
    node: FileNode


def walk_tree(top: FileNode) -> Iterator[tuple[str, FileNode]]:
    """All below a folder. Not recursive: folders may lie deeper than our own stack."""
    waiting = [("", top)]
    while waiting:
        prefix, folder = waiting.pop()
        for name, node in sorted((folder.children or {}).items()):
            yield prefix + name, node
            if node.data is None:
                waiting.append((f"{prefix}{name}/", node))


def read_only_tree(folder: str, suffix: str) -> FileNode:
    """A folder of the host, read now, with its files of that suffix."""
    top = FileNode()
    for path, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(path, name)
            if name.endswith(suffix):
                with open(file, "rb") as opened:
                    top.place(os.path.relpath(file, folder).replace(os.sep, "/"), FileNode(opened.read()))
    return top
