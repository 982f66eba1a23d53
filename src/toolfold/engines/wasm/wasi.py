"""WASI for one instance: files in memory with quotas, clocks, entropy. Reaches no file of the host.

The caller is hostile. Rules:
1. Memory of the instance is reached through `Memory` alone, which checks each pointer and length.
2. A function of `Wasi` raises `WasiError` with the number that the guest gets; whatever else it raises is `EINVAL`
   there. Each does a bounded amount of work: an interruption is only heard between two of them.
3. There are no links. `..` ends at the top, or at the folder that was opened for a path to be relative to.
4. What a file takes is counted until it has neither a name nor a descriptor.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from toolfold.engines.wasm.memory_files import READ_ONLY, FileNode, FileQuota, Mount, NullFile, WasiError, walk_tree

SUCCESS, BAD_FD, EXISTS, FAULT, INVALID, IS_FOLDER, TOO_MANY_FILES, NAME_TOO_LONG = 0, 8, 20, 21, 28, 31, 33, 37
NOT_FOUND, NOT_FOLDER, NOT_EMPTY, NOT_SOCKET, REFUSED, OTHER_DEVICE = 44, 54, 55, 57, 63, 75
_LEFT_BY_LIBRARIES: Final = frozenset({"__pycache__", ".matplotlib"})
_MOST_FDS: Final = 256
_MOST_PIECES: Final = 1024
_MOST_SUBSCRIPTIONS: Final = 256
_MOST_PATH_BYTES, _MOST_NAME_BYTES = 4096, 255
_ENTROPY_PIECE: Final = 1 << 16
_MOST_ENTROPY: Final = 1 << 24
_CREATE, _FOLDER_ONLY, _EXCLUSIVE, _TRUNCATE = 1, 2, 4, 8
_MAY_READ, _MAY_WRITE = 1 << 1, 1 << 6
_APPEND: Final = 1
_SET_TIME, _SET_TIME_NOW = 4, 8  # of the last change; other times are not kept
_KIND_FOLDER, _KIND_FILE = 3, 4
_ALL_RIGHTS: Final = (1 << 30) - 1
_PIECE = struct.Struct("<II")
_FDSTAT, _FILESTAT, _PRESTAT = struct.Struct("<BxHxxxxQQ"), struct.Struct("<QQBxxxxxxxQQQQQ"), struct.Struct("<II")
_ENTRY = struct.Struct("<QQIBxxx")
_SUBSCRIPTION, _EVENT = struct.Struct("<QB7xIxxxxQQHxxxxxx"), struct.Struct("<QHBxxxxxQHxxxxxx")
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

_TABLE: Final = """
args_get ii            args_sizes_get ii      clock_res_get ii       clock_time_get iIi     environ_get ii
environ_sizes_get ii   fd_advise iIIi         fd_allocate iII        fd_close i             fd_datasync i
fd_fdstat_get ii       fd_fdstat_set_flags ii fd_filestat_get ii     fd_filestat_set_size iI
fd_filestat_set_times iIIi                    fd_pread iiiIi         fd_prestat_dir_name iii
fd_prestat_get ii      fd_pwrite iiiIi        fd_read iiii           fd_readdir iiiIi       fd_seek iIii
fd_sync i              fd_tell ii             fd_write iiii          path_create_directory iii
path_filestat_get iiiii                       path_filestat_set_times iiiiIIi               path_link iiiiiii
path_open iiiiiIIii    path_readlink iiiiii   path_remove_directory iii                     path_rename iiiiii
path_symlink iiiii     path_unlink_file iii   poll_oneoff iiii       random_get ii          sock_accept iii
sock_recv iiiiii       sock_send iiiii        sock_shutdown ii
"""
_WORDS: Final = _TABLE.split()
SIGNATURES: Final[dict[str, str]] = dict(zip(_WORDS[::2], _WORDS[1::2], strict=True))
"""Parameters of each function, `i` for 32 bits and `I` for 64; all give a number. Without `proc_exit` and
`sched_yield`, which the instance answers itself."""


class _Descriptor:
    __slots__ = ("above", "flags", "listing", "name", "node", "position", "rights")

    def __init__(
        self, node: FileNode, flags: int = 0, rights: int = _ALL_RIGHTS, *, name: bytes | None = None,
        above: tuple[FileNode, ...] = (),
    ) -> None:  # fmt: skip
        """One with a name is among those that a guest starts with; `above` are the folders on the way to it."""
        self.node, self.flags, self.rights, self.name, self.above = node, flags, rights, name, above
        self.position = 0
        self.listing: list[tuple[str, FileNode]] = []
        """Of a folder, as it was when its reader began."""
        node.open_count += 1


class Memory:
    """Linear memory of an instance, as the functions here see it."""

    def __init__(self) -> None:
        self._view = memoryview(b"")
        self._size = 0
        self.refresh: Callable[[], memoryview] = lambda: self._view
        """What it is by now: it grows."""

    def view(self, pointer: int, size: int) -> memoryview:
        end = pointer + size
        if end > self._size:
            self._view = self.refresh()
            self._size = len(self._view)
            if end > self._size:
                raise WasiError(FAULT)
        return self._view[pointer:end]

    def release(self) -> None:
        self._view, self._size = memoryview(b""), 0
        self.refresh = lambda: self._view

    def write(self, pointer: int, data: Any) -> None:
        self.view(pointer, len(data))[:] = data

    def write_u32(self, pointer: int, value: int) -> None:
        self.view(pointer, 4)[:] = _U32.pack(value)

    def write_u64(self, pointer: int, value: int) -> None:
        self.view(pointer, 8)[:] = _U64.pack(value)


class Wasi:
    """The functions of one instance, by their names in `SIGNATURES`."""

    def __init__(self, mounts: tuple[Mount, ...], environment: dict[str, str]) -> None:
        """`mounts` are read-only and shared. A guest keeps their numbers in its memory: always the same, in order."""
        self.memory = Memory()
        self.wait: Callable[[float], None] = time.sleep
        """Sleeps for so many seconds; raises whatever is to end the guest."""
        self.cpu_ns: Callable[[], int] = time.thread_time_ns
        self._environment = [f"{name}={value}".encode() for name, value in environment.items()]
        self.temp_quota, self.data_quota = FileQuota(1 << 26, 1024), FileQuota(0, 0)
        self.data = FileNode(quota=self.data_quota)
        temp, root = FileNode(quota=self.temp_quota), FileNode()
        self._temp = temp
        streams = [FileNode(bytearray(), quota=self.temp_quota) for _ in range(3)]
        folders = [*mounts, Mount("/tmp", temp), Mount("/mnt/data", self.data)]
        files = [Mount(f"/dev/{name}", node) for name, node in zip(("stdin", "stdout", "stderr"), streams, strict=True)]
        above = {path: root.place(path, node) for path, node in (*folders, *files)}
        root.place("/dev/null", NullFile())
        descriptors = [*map(_Descriptor, streams)]
        descriptors += [_Descriptor(node, name=path.encode(), above=above[path]) for path, node in folders]
        descriptors.append(_Descriptor(root, name=b"/", above=(root,)))
        self._descriptors = dict(enumerate(descriptors))
        self._first_free = len(descriptors)

    def limit(self, data_bytes: int, data_files: int) -> None:
        """For the program that begins, with what earlier ones of its session left behind counted in."""
        for quota, folder in ((self.data_quota, self.data), (self.temp_quota, self._temp)):
            nodes = [node for _, node in walk_tree(folder)]
            quota.bytes = max(0, data_bytes - sum(node.size for node in nodes))
            quota.files = max(0, data_files - len(nodes))

    def files(self) -> Iterator[tuple[str, FileNode]]:
        """The files in the data folder by their paths, without those that libraries leave there."""
        for path, node in walk_tree(self.data):
            if node.data is not None and _LEFT_BY_LIBRARIES.isdisjoint(path.split("/")):
                yield path, node

    def text_of(self, fd: int) -> str:
        """What C code, or the interpreter at its end, wrote to a standard stream."""
        return (
            bytes(self._descriptors[fd].node.data[-2000:]).decode(errors="replace") if fd in self._descriptors else ""
        )

    # what paths and descriptors lead to

    def _descriptor(self, fd: int) -> _Descriptor:
        try:
            return self._descriptors[fd]
        except KeyError:
            raise WasiError(BAD_FD) from None

    def _file(self, fd: int, right: int) -> _Descriptor:
        descriptor = self._descriptor(fd)
        if descriptor.node.data is None:
            raise WasiError(IS_FOLDER)
        if not descriptor.rights & right:
            raise WasiError(BAD_FD)
        return descriptor

    def _path(self, pointer: int, size: int) -> str:
        if size > _MOST_PATH_BYTES:
            raise WasiError(NAME_TOO_LONG)
        try:
            path = bytes(self.memory.view(pointer, size)).decode()
        except UnicodeDecodeError:
            raise WasiError(INVALID) from None
        if "\0" in path:
            raise WasiError(INVALID)
        if not path or path[0] == "/":
            raise WasiError(REFUSED if path else NOT_FOUND)
        return path

    def _walk(self, fd: int, pointer: int, size: int) -> tuple[list[FileNode], str, FileNode | None]:
        """The folders on the way, the last name, and what has that name; a folder itself is `.` of itself."""
        descriptor = self._descriptor(fd)
        node = descriptor.node
        if node.children is None:
            raise WasiError(NOT_FOLDER)
        path = self._path(pointer, size)
        folders, name = [node], "."
        match: FileNode | None = node
        for part in path.split("/"):
            if part in ("", "."):
                continue
            if match is None:
                raise WasiError(NOT_FOUND)
            children = match.children
            if children is None:
                raise WasiError(NOT_FOLDER)
            if match is not folders[-1]:
                folders.append(match)
            if part == "..":
                folders.pop()
                if not folders:
                    if not descriptor.above:
                        raise WasiError(REFUSED)
                    folders.extend(descriptor.above)
                name, match = ".", folders[-1]
                continue
            if len(part) > 85 and len(part.encode()) > _MOST_NAME_BYTES:
                raise WasiError(NAME_TOO_LONG)
            name, match = part, children.get(part)
        # With a slash at its end it names a folder, and nothing else.
        if path[-1] == "/" and match and match.children is None:
            raise WasiError(NOT_FOLDER)
        return folders, name, match

    def _existing(self, fd: int, pointer: int, size: int) -> FileNode:
        match = self._walk(fd, pointer, size)[2]
        if match is None:
            raise WasiError(NOT_FOUND)
        return match

    def _place(self, fd: int, pointer: int, size: int) -> tuple[list[FileNode], str, FileNode | None]:
        """As `_walk`, for a name that is about to change: its folder can be written to."""
        folders, name, match = self._walk(fd, pointer, size)
        if name == ".":
            raise WasiError(INVALID)
        if folders[-1].quota is None:
            raise WasiError(READ_ONLY)
        return folders, name, match

    def _pieces(self, pointer: int, count: int) -> list[memoryview]:
        if count > _MOST_PIECES:
            raise WasiError(INVALID)
        view = self.memory.view
        return [view(start, size) for start, size in _PIECE.iter_unpack(view(pointer, 8 * count))]

    # arguments and environment

    def _texts(self, texts: list[bytes], pointers: int, buffer: int) -> int:
        for text in texts:
            self.memory.write_u32(pointers, buffer)
            self.memory.write(buffer, text + b"\0")
            pointers, buffer = pointers + 4, buffer + len(text) + 1
        return SUCCESS

    def _sizes(self, texts: list[bytes], count: int, size: int) -> int:
        self.memory.write_u32(count, len(texts))
        self.memory.write_u32(size, sum(len(text) + 1 for text in texts))
        return SUCCESS

    def args_get(self, pointers: int, buffer: int) -> int:
        return self._texts([b"python"], pointers, buffer)

    def args_sizes_get(self, count: int, size: int) -> int:
        return self._sizes([b"python"], count, size)

    def environ_get(self, pointers: int, buffer: int) -> int:
        return self._texts(self._environment, pointers, buffer)

    def environ_sizes_get(self, count: int, size: int) -> int:
        return self._sizes(self._environment, count, size)

    # clocks, entropy and sleep

    def _clock(self, clock: int) -> int:
        if clock > 3:
            raise WasiError(INVALID)
        return (time.time_ns, time.monotonic_ns, self.cpu_ns, self.cpu_ns)[clock]()

    def clock_res_get(self, clock: int, result: int) -> int:
        self._clock(clock)
        self.memory.write_u64(result, 1000)
        return SUCCESS

    def clock_time_get(self, clock: int, _precision: int, result: int) -> int:
        self.memory.write_u64(result, self._clock(clock))
        return SUCCESS

    def random_get(self, pointer: int, size: int) -> int:
        if size > _MOST_ENTROPY:
            raise WasiError(INVALID)
        target = self.memory.view(pointer, size)
        for start in range(0, size, _ENTROPY_PIECE):
            piece = target[start : start + _ENTROPY_PIECE]
            piece[:] = os.urandom(len(piece))
        return SUCCESS

    def poll_oneoff(self, subscriptions: int, events: int, count: int, result: int) -> int:
        if not 0 < count <= _MOST_SUBSCRIPTIONS:
            raise WasiError(INVALID)
        self.memory.view(events, 32 * count)
        waiting = list(_SUBSCRIPTION.iter_unpack(bytes(self.memory.view(subscriptions, 48 * count))))
        ready = [
            # Files never make anybody wait.
            (user, SUCCESS if clock_or_fd in self._descriptors else BAD_FD, kind, 1, 0)
            for user, kind, clock_or_fd, *_ in waiting
            if kind
        ]
        if not ready:
            ends = [
                timeout - self._clock(clock) if flags & 1 else timeout for _, _, clock, timeout, _, flags in waiting
            ]
            shortest = min(ends)
            self.wait(max(0, shortest) / 1e9)
            ready = [(row[0], SUCCESS, 0, 0, 0) for row, end in zip(waiting, ends, strict=True) if end == shortest]
        self.memory.write(events, b"".join(_EVENT.pack(*event) for event in ready))
        self.memory.write_u32(result, len(ready))
        return SUCCESS

    # descriptors

    def fd_close(self, fd: int) -> int:
        descriptor = self._descriptor(fd)
        if descriptor.name is not None:
            raise WasiError(REFUSED)
        del self._descriptors[fd]
        descriptor.node.open_count -= 1
        descriptor.node.free_if_gone()
        return SUCCESS

    def fd_sync(self, fd: int) -> int:
        self._descriptor(fd)
        return SUCCESS

    fd_datasync = fd_sync

    def fd_advise(self, fd: int, _start: int, _size: int, _advice: int) -> int:
        return self.fd_sync(fd)

    def fd_fdstat_get(self, fd: int, result: int) -> int:
        descriptor = self._descriptor(fd)
        kind = _KIND_FOLDER if descriptor.node.data is None else _KIND_FILE
        self.memory.write(result, _FDSTAT.pack(kind, descriptor.flags, descriptor.rights, _ALL_RIGHTS))
        return SUCCESS

    def fd_fdstat_set_flags(self, fd: int, flags: int) -> int:
        self._descriptor(fd).flags = flags & 0x1F
        return SUCCESS

    def fd_prestat_get(self, fd: int, result: int) -> int:
        name = self._descriptor(fd).name
        if name is None:
            raise WasiError(BAD_FD)
        self.memory.write(result, _PRESTAT.pack(0, len(name)))
        return SUCCESS

    def fd_prestat_dir_name(self, fd: int, pointer: int, size: int) -> int:
        name = self._descriptor(fd).name
        if name is None or size < len(name):
            raise WasiError(BAD_FD if name is None else NAME_TOO_LONG)
        self.memory.write(pointer, name)
        return SUCCESS

    def _write_stat(self, node: FileNode, result: int) -> int:
        kind = _KIND_FOLDER if node.data is None else _KIND_FILE
        times = (node.modified,) * 3
        self.memory.write(result, _FILESTAT.pack(1, node.inode, kind, 1, node.size, *times))
        return SUCCESS

    def fd_filestat_get(self, fd: int, result: int) -> int:
        return self._write_stat(self._descriptor(fd).node, result)

    def fd_filestat_set_size(self, fd: int, size: int) -> int:
        self._file(fd, _MAY_WRITE).node.resize(size)
        return SUCCESS

    def fd_allocate(self, fd: int, start: int, size: int) -> int:
        node = self._file(fd, _MAY_WRITE).node
        node.resize(max(node.size, start + size))
        return SUCCESS

    def _set_time(self, node: FileNode, modified: int, flags: int) -> int:
        if node.quota is None:
            raise WasiError(REFUSED)
        if flags & (_SET_TIME | _SET_TIME_NOW):
            node.modified = modified if flags & _SET_TIME else time.time_ns()
        return SUCCESS

    def fd_filestat_set_times(self, fd: int, _accessed: int, modified: int, flags: int) -> int:
        return self._set_time(self._descriptor(fd).node, modified, flags)

    def _read(self, node: FileNode, position: int, pieces: list[memoryview]) -> int:
        data = node.data if type(node.data) is memoryview else memoryview(node.data)
        start = position
        for piece in pieces:
            part = data[position : position + len(piece)]
            piece[: len(part)] = part
            position += len(part)
        return position - start

    def _write(self, node: FileNode, position: int, pieces: list[memoryview]) -> int:
        size = sum(map(len, pieces))
        end = position + size
        if type(node) is NullFile:
            return size
        if size and end > node.size:
            if position == node.size and node.quota is not None:  # the usual case, without a detour through zeros
                node.quota.take(size)
                for piece in pieces:
                    node.data += piece
                node.modified = time.time_ns()
                return size
            node.resize(end)
        if node.quota is None:
            raise WasiError(READ_ONLY)
        for piece in pieces:
            node.data[position : position + len(piece)] = piece
            position += len(piece)
        node.modified = time.time_ns()
        return size

    def fd_read(self, fd: int, pieces: int, count: int, result: int) -> int:
        descriptor = self._file(fd, _MAY_READ)
        size = self._read(descriptor.node, descriptor.position, self._pieces(pieces, count))
        self.memory.write_u32(result, size)
        descriptor.position += size
        return SUCCESS

    def fd_pread(self, fd: int, pieces: int, count: int, position: int, result: int) -> int:
        size = self._read(self._file(fd, _MAY_READ).node, position, self._pieces(pieces, count))
        self.memory.write_u32(result, size)
        return SUCCESS

    def fd_write(self, fd: int, pieces: int, count: int, result: int) -> int:
        descriptor = self._file(fd, _MAY_WRITE)
        if descriptor.flags & _APPEND:
            descriptor.position = descriptor.node.size
        self.memory.view(result, 4)
        size = self._write(descriptor.node, descriptor.position, self._pieces(pieces, count))
        descriptor.position += size
        self.memory.write_u32(result, size)
        return SUCCESS

    def fd_pwrite(self, fd: int, pieces: int, count: int, position: int, result: int) -> int:
        node = self._file(fd, _MAY_WRITE).node
        self.memory.view(result, 4)
        self.memory.write_u32(result, self._write(node, position, self._pieces(pieces, count)))
        return SUCCESS

    def fd_seek(self, fd: int, offset: int, whence: int, result: int) -> int:
        descriptor = self._file(fd, _ALL_RIGHTS)
        if whence > 2:
            raise WasiError(INVALID)
        offset -= (offset >> 63) << 64  # it has a sign
        position = offset + (0, descriptor.position, descriptor.node.size)[whence]
        if not 0 <= position < 1 << 63:
            raise WasiError(INVALID)
        self.memory.write_u64(result, position)
        descriptor.position = position
        return SUCCESS

    def fd_tell(self, fd: int, result: int) -> int:
        self.memory.write_u64(result, self._descriptor(fd).position)
        return SUCCESS

    def fd_readdir(self, fd: int, buffer: int, size: int, cookie: int, result: int) -> int:
        descriptor = self._descriptor(fd)
        node = descriptor.node
        if node.children is None:
            raise WasiError(NOT_FOLDER)
        if not cookie:
            descriptor.listing = [(".", node), ("..", node), *sorted(node.children.items())]
        parts, length = [], 0
        for number, (name, child) in enumerate(descriptor.listing[cookie:], cookie + 1):
            text = name.encode()
            kind = _KIND_FOLDER if child.data is None else _KIND_FILE
            parts.append(_ENTRY.pack(number, child.inode, len(text), kind) + text)
            length += len(parts[-1])
            if length >= size:
                break
        data = b"".join(parts)[:size]
        self.memory.write(buffer, data)
        self.memory.write_u32(result, len(data))
        return SUCCESS

    # paths

    def path_open(
        self, fd: int, _follow: int, path: int, path_size: int, how: int, rights: int, _inherited: int, flags: int,
        result: int,
    ) -> int:  # fmt: skip
        self.memory.view(result, 4)
        if len(self._descriptors) >= _MOST_FDS:
            raise WasiError(TOO_MANY_FILES)
        folders, name, node = self._walk(fd, path, path_size)
        is_new = node is None
        if node is None:
            if not how & _CREATE:
                raise WasiError(NOT_FOUND)
            node = self._new_child(folders[-1], name, bytearray())
        elif how & _CREATE and how & _EXCLUSIVE:
            raise WasiError(EXISTS)
        if how & _FOLDER_ONLY and node.children is None:
            raise WasiError(NOT_FOLDER)
        # A folder is opened with rights that only matter below it.
        if node.data is None:
            if rights & _MAY_WRITE and not how & _FOLDER_ONLY:
                raise WasiError(IS_FOLDER)
        elif (rights & _MAY_WRITE or how & _TRUNCATE) and node.quota is None:
            raise WasiError(READ_ONLY)
        elif how & _TRUNCATE and not is_new:
            node.resize(0)
        number = self._first_free
        while number in self._descriptors:
            number += 1
        self._descriptors[number] = _Descriptor(node, flags & 0x1F, rights)
        self.memory.write_u32(result, number)
        return SUCCESS

    def _new_child(self, folder: FileNode, name: str, data: bytearray | None) -> FileNode:
        assert folder.children is not None
        # One whose folder is gone has no names.
        if folder.quota is None or not folder.is_linked:
            raise WasiError(NOT_FOUND if not folder.is_linked else READ_ONLY)
        folder.quota.take(0, 1)
        folder.children[name] = node = FileNode(data, quota=folder.quota)
        folder.modified = node.modified
        return node

    def path_create_directory(self, fd: int, path: int, size: int) -> int:
        folders, name, match = self._walk(fd, path, size)
        if match is not None:
            raise WasiError(EXISTS)
        self._new_child(folders[-1], name, None)
        return SUCCESS

    def path_filestat_get(self, fd: int, _follow: int, path: int, size: int, result: int) -> int:
        return self._write_stat(self._existing(fd, path, size), result)

    def path_filestat_set_times(
        self, fd: int, _follow: int, path: int, size: int, _accessed: int, modified: int, flags: int
    ) -> int:
        return self._set_time(self._existing(fd, path, size), modified, flags)

    def _remove(self, folder: FileNode, name: str, *, is_folder: bool) -> None:
        assert folder.children is not None
        node = folder.children.get(name)
        if node is None:
            raise WasiError(NOT_FOUND)
        if is_folder is not (node.data is None):
            raise WasiError(NOT_FOLDER if is_folder else IS_FOLDER)
        if node.children:
            raise WasiError(NOT_EMPTY)
        if node.quota is None:
            raise WasiError(REFUSED)
        del folder.children[name]
        folder.modified = time.time_ns()
        node.is_linked = False
        node.free_if_gone()

    def path_unlink_file(self, fd: int, path: int, size: int) -> int:
        folders, name, _ = self._place(fd, path, size)
        self._remove(folders[-1], name, is_folder=False)
        return SUCCESS

    def path_remove_directory(self, fd: int, path: int, size: int) -> int:
        folders, name, _ = self._place(fd, path, size)
        self._remove(folders[-1], name, is_folder=True)
        return SUCCESS

    def path_rename(self, fd: int, path: int, size: int, new_fd: int, new_path: int, new_size: int) -> int:
        folders, name, node = self._place(fd, path, size)
        new_folders, new_name, target = self._place(new_fd, new_path, new_size)
        if node is None or not new_folders[-1].is_linked:
            raise WasiError(NOT_FOUND)
        if node.quota is not new_folders[-1].quota:
            raise WasiError(OTHER_DEVICE)
        if target is node:
            return SUCCESS
        if node in new_folders or self._is_below(new_folders[0], node):
            raise WasiError(INVALID)
        assert folders[-1].children is not None
        assert new_folders[-1].children is not None
        if target is not None:
            if node.data is None and target.data is not None:
                raise WasiError(NOT_FOLDER)
            self._remove(new_folders[-1], new_name, is_folder=node.data is None)
        new_folders[-1].children[new_name] = folders[-1].children.pop(name)
        folders[-1].modified = new_folders[-1].modified = time.time_ns()
        return SUCCESS

    @staticmethod
    def _is_below(folder: FileNode, top: FileNode) -> bool:
        """Whether a folder lies in another; a descriptor may lead into it without passing the other."""
        return folder is top or any(node is folder for _, node in walk_tree(top))

    def path_link(self, *_: int) -> int:
        return REFUSED

    path_symlink = path_link

    def path_readlink(self, *_: int) -> int:
        return INVALID

    def sock_accept(self, *_: int) -> int:
        return NOT_SOCKET

    sock_recv = sock_send = sock_shutdown = sock_accept
