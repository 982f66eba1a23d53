"""The data folder of a program on Monty: held in memory, so that no path of the host is in reach."""

import errno
import mimetypes
from collections.abc import Collection, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from toolfold.engines.monty.state import Stored
from toolfold.models import MIB, File, Limits

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
        self, folder: Any, given: Iterable[File], limits: Limits, not_handled: object, folders: Collection[str] = ()
    ) -> None:
        self._folder = folder
        self._given = {file.name: file.data for file in given}
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
        """The files that are new or changed."""
        made = {name: data for name, data in self._now().items() if self._given.get(name) != data}
        return tuple(File(name=name, data=data, mime=_mime(name)) for name, data in sorted(made.items()))

    def deleted(self) -> frozenset[str]:
        """The given files that are gone."""
        return frozenset(self._given) - self._now().keys()

    def dump(self) -> tuple[list[Stored], list[str]]:
        """All files and folders, for a snapshot."""
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
