"""The `ahead` files of other processes: what the killed left is brought into the tables, what the living have is read.

The caller commits what `catch_up` did before it calls `remove`: a process that is killed in between leaves the file to
the next one, which finds by the numbers of the entries that nothing is missing any more.
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from toolfold.errors import SealBroken, ToolfoldError
from toolfold.ledger import codec
from toolfold.ledger.ahead import HALF_BYTES, HEAD, MAGIC, MARK_BYTES, START, Record, folder_of
from toolfold.ledger.locks import HAS_LOCKS, lock
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.ledger.tables import Tables

_log = logging.getLogger("toolfold.ledger")
_KILLED: Final = "killed"
"""An owner that has no file."""


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    fd: int
    is_left: bool
    """Its owner was killed; nobody else reads it now."""


class AheadFiles:
    """The files of other processes beside one ledger, as they were found; use it in a `with`."""

    def __init__(self, files: list[_File], records: dict[str, list[Record]], left: frozenset[str]) -> None:
        self._files = files
        self._records = records
        self._left = left
        """Executions whose process was killed."""

    @property
    def has_left(self) -> bool:
        """Whether a killed process left a file."""
        return any(file.is_left for file in self._files)

    def catch_up(self, tables: Tables, taken: str = "") -> None:
        """Write what the killed left, and what the living have of the execution that is `taken` over."""
        for execution_id in sorted(self._left | ({taken} & self._records.keys())):
            self._catch_up(tables, execution_id)

    def _catch_up(self, tables: Tables, execution_id: str) -> None:
        count = tables.count(execution_id)
        if count is None:
            first = next((record for record in self._records[execution_id] if record.begun), None)
            if first is None:
                return  # it was forgotten since
            try:
                begun = codec.decode_begun(first.begun, codec.decode_tools(first.tools))
            except msgspec.MsgspecError as error:
                _log.warning("an execution that a killed process left cannot be read, and is lost: %s", error)
                return
            tables.begin(begun, _KILLED)
            count = 0
        bodies = self.missing(execution_id, count)
        if bodies:
            with suppress(ToolfoldError):  # it has ended, or its epoch is another: then nothing is missing
                tables.add(execution_id, 0, bodies)

    def remove(self) -> None:
        """What the killed left is committed."""
        for file in self._files:
            if file.is_left:
                file.path.unlink(missing_ok=True)
                with suppress(OSError):  # others have files there
                    file.path.parent.rmdir()

    def missing(self, execution_id: str, count: int) -> list[bytes]:
        """The entries of an execution behind so many that the tables have."""
        bodies = []
        for record in sorted(self._records.get(execution_id, ()), key=lambda record: record.first):
            for number, body in enumerate(record.bodies, record.first):
                if number >= count:
                    bodies.append(body)
                    count = number + 1
        return bodies


@contextmanager
def found_beside(ledger: Path, seal: Seal | NoSeal, own: str = "", *, mark: bool = False) -> Iterator[AheadFiles]:
    """All files but one's own; with `mark` the living know that they were read."""
    files = [file for path in _paths(ledger, own) if (file := _open(path)) is not None]
    try:
        records: dict[str, list[Record]] = {}
        left = set()
        for file in files:
            if mark and not file.is_left:
                os.pwrite(file.fd, secrets.token_bytes(MARK_BYTES), len(MAGIC))
            for record in _read(file, seal):
                records.setdefault(record.execution_id, []).append(record)
                if file.is_left:
                    left.add(record.execution_id)
        yield AheadFiles(files, records, frozenset(left))
    finally:
        for file in files:
            os.close(file.fd)


def bring_in(ledger: Path, connection: sqlite3.Connection, tables: Tables, seal: Seal | NoSeal) -> None:
    """Before anybody else uses this connection: write what killed processes left."""
    with found_beside(ledger, seal) as found:
        if not found.has_left:
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            tables.changes.begin()
            found.catch_up(tables)
            tables.write()
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            tables.drop()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            _log.warning("what a killed process left beside the ledger waits for the next start: %s", error)
        else:
            found.remove()


def is_living(ledger: Path, owner: str) -> bool:
    """Whether the process has the lock on its file; one that left removed it, one that was killed has no lock."""
    try:
        fd = os.open(folder_of(ledger) / owner, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # nobody can say
    try:
        return not lock(fd)
    except OSError:
        return True
    finally:
        os.close(fd)


def _paths(ledger: Path, own: str) -> list[Path]:
    try:
        return sorted(path for path in folder_of(ledger).iterdir() if path.name != own) if HAS_LOCKS else []
    except OSError:
        return []  # mostly because there is no such folder


def _open(path: Path) -> _File | None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None  # another process brought it in
    try:
        is_left = lock(fd)
    except OSError:
        is_left = False  # its owner had a lock, so it may have it still
    is_there = os.fstat(fd).st_nlink > 0
    if is_there and (os.pread(fd, len(MAGIC), 0) or MAGIC) == MAGIC:  # one that is empty was never written to
        return _File(path, fd, is_left)
    os.close(fd)
    if is_there:
        _log.warning("the file %r beside the ledger is from another version of toolfold; open it with that", path.name)
    return None


def _read(file: _File, seal: Seal | NoSeal) -> Iterator[Record]:
    size = os.fstat(file.fd).st_size
    data = os.pread(file.fd, min(size, START + 2 * HALF_BYTES), 0)
    for start in (START, START + HALF_BYTES):
        yield from _half(data[start : start + HALF_BYTES], file.path.name, seal)


def _half(data: bytes, name: str, seal: Seal | NoSeal) -> Iterator[Record]:
    place = 0
    while place + HEAD.size <= len(data):
        length, checksum = HEAD.unpack_from(data, place)
        place += HEAD.size
        packed = data[place : place + length]
        # Cut off in the middle of a write, whose call was not made then.
        if not length or len(packed) < length or zlib.crc32(packed) != checksum:
            return
        try:
            yield _decoder.decode(seal.open(packed, name))
        except (SealBroken, msgspec.MsgspecError):
            _log.warning("the file %r beside the ledger is damaged; what is behind the damage is lost", name)
            return
        place += length


_decoder: Final = msgspec.msgpack.Decoder(Record)
