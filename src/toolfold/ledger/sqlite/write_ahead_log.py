"""Write-ahead log of a SQLite ledger: one file for each process in a folder beside the database.

A call that is unsafe to repeat is on record before it is made. A commit for each would take a thread and 0.4 ms; a
write to this file takes 3 µs, and both survive a kill of the process, but not a power cut.

1. A record holds the entries of one execution since its last record, and the first one its start. Entries are
   numbered within their execution, so that a reader knows which of them the tables have already.
2. After a commit that has the entries of all records, the file is written from its beginning again. While it is full,
   each call waits for a commit.
3. The owner holds a lock on its file. A file without one is of a killed process: `recover_logs` moves it to the tables.
4. A process that takes over an execution marks the files of living processes, and then reads them. The owner writes a
   record, and then reads the mark. Whichever comes second sees the other: either the record is read, or the owner
   waits for a commit, where it is fenced.
5. A takeover looks for files in its transaction, and a process has its file before the first of its executions is in
   the tables. So no file is made behind the back of a takeover. One that could not be made in time begins with a mark
   that no execution knows: each of them waits for a commit once.
"""

from __future__ import annotations

import logging
import os
import secrets
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from toolfold.errors import SealBroken, ToolfoldError
from toolfold.file_locks import O_CLOEXEC, O_NOFOLLOW, try_lock
from toolfold.ledger import codec
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.sqlite.tables import Tables
from toolfold.models import StartRecord, ToolSpec

HAS_LOCKS: Final = os.name == "posix"
"""Without locks there is no such file, and each call that is unsafe to repeat waits for a commit."""
MAGIC: Final = b"toolfold ahead 1"
MARK_BYTES: Final = 8
HEAD: Final = struct.Struct(">II")
"""Before each record: its length and its checksum. A length of 0 ends the records."""
_END: Final = bytes(HEAD.size)
START: Final = 4096
MAX_BYTES: Final = 512 * 1024
"""Of all records. Files of earlier versions have as many again behind them."""
_MAX_RECORD_BYTES: Final = 64 * 1024
"""More is written faster by a commit, which does not stop the event loop."""
_KILLED_OWNER: Final = "killed"
"""Owner without a file."""

_log = logging.getLogger("toolfold.ledger")


@dataclass(slots=True)
class LogBuffer:
    """Entries of an execution that began in this process, which are in no record yet."""

    execution_id: str
    start_record: StartRecord | None
    """Until it is in a record, or committed."""
    mark: bytes
    """Of the file when the execution began. Another one since then: it may have been taken over."""
    bodies: list[bytes] = field(default_factory=list)
    size: int = 0
    first: int = 0
    """Number of the first body in its execution."""
    total: int = 0
    """Bytes of the execution so far."""
    waiting: int = 0
    """Number of waiters for a commit."""
    is_whole: bool = True
    """No entry is missing between what is safe and the first body."""

    def add(self, body: bytes) -> None:
        self.bodies.append(body)
        self.size += len(body)
        self.total += len(body)
        if self.size > _MAX_RECORD_BYTES:
            self.leave_to_commit()

    def leave_to_commit(self) -> None:
        """Drop the entries, which a commit makes safe."""
        self.mark_written()
        self.is_whole = False

    def mark_written(self) -> None:
        """Drop the entries, which are in a record."""
        self.first += len(self.bodies)
        self.bodies, self.size, self.start_record = [], 0, None


class WriteAheadRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Record as it is packed in the file."""

    execution_id: str
    first: int
    bodies: list[bytes]
    start_record: bytes = b""
    tools: bytes = b""


class WriteAheadLog:
    """File of this process. It is made with the first execution, and removed when the tables have everything."""

    def __init__(self, ledger: Path, seal: Seal | NoSeal, max_execution_bytes: int) -> None:
        self.name = secrets.token_hex(8)
        self._path = _folder(ledger) / self.name
        self._seal = seal
        # An execution near its limit is told by the tables whether its entries still fit.
        self._near_limit = max_execution_bytes // 2
        self._fd = -1
        self._lock = threading.Lock()
        self._end = self._committed_end = START
        self._grant: tuple[tuple[ToolSpec, ...] | None, bytes] = (None, b"")
        self.mark = b""
        """As it was read last."""
        self._is_closed = False

    @property
    def owner(self) -> str:
        """Name by which others find the lock of this process; empty while it has none."""
        return self.name if self._fd >= 0 else ""

    def open(self) -> None:
        """Make the file, if it is not there: a takeover of an execution of this process must find it."""
        if self._fd < 0:
            with self._lock, suppress(OSError):
                if self._open():
                    self.mark = os.pread(self._fd, MARK_BYTES, len(MAGIC))

    def write(self, buffer: LogBuffer) -> bool:
        """Whether the buffered entries are safe now; otherwise wait for a commit."""
        if not buffer.is_whole or buffer.waiting or buffer.total > self._near_limit:
            return False
        packed = self._seal.seal(_encode(self._fields(buffer)), self.name)
        # With an end of the records behind it, which the next one overwrites: older ones may lie there.
        data = HEAD.pack(len(packed), zlib.crc32(packed)) + packed + _END
        with self._lock:
            end = self._end + len(data) - HEAD.size
            if end > START + MAX_BYTES - HEAD.size or not self._open():
                return False
            try:
                # Short on a full disk; the next one is written over it.
                if os.pwrite(self._fd, data, self._end) != len(data):
                    return False
                self.mark = mark = os.pread(self._fd, MARK_BYTES, len(MAGIC))
            except OSError:
                return False
            self._end = end
        if mark != buffer.mark:
            return False
        buffer.mark_written()
        return True

    def begin_commit(self) -> None:
        """Note that the entries of all records so far are about to be committed."""
        self._committed_end = self._end

    def end_commit(self) -> None:
        """Write from the beginning again, if no record was added since `begin_commit`."""
        with self._lock:
            if self._end == self._committed_end > START and self._fd >= 0:
                self._end = START
                with suppress(OSError):  # a reader then finds that the tables have all of it
                    os.pwrite(self._fd, _END, START)

    def close(self, *, is_committed: bool) -> None:
        """Remove the file if the tables have everything."""
        with self._lock:
            self._is_closed = True
            if is_committed and self._fd >= 0:
                _remove(self._path)
            self.disown()

    def disown(self) -> None:
        """Close the file; in a forked child, because the lock is the parent's alone."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _fields(self, buffer: LogBuffer) -> tuple[object, ...]:
        fields = (buffer.execution_id, buffer.first, buffer.bodies)
        start_record = buffer.start_record
        if start_record is None:
            return fields
        # By identity: a runtime grants the same tuple each time.
        if self._grant[0] is not start_record.tools:
            self._grant = (start_record.tools, codec.encode_tools(start_record.tools))
        return (*fields, codec.encode_start(start_record), self._grant[1])

    def _open(self) -> bool:
        """Make the file, with its lock. False where that cannot be done: a commit then says why, if it fails too."""
        if self._fd >= 0 or not HAS_LOCKS or self._is_closed:
            return self._fd >= 0
        with suppress(OSError), ExitStack() as stack:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            fd, is_locked = open_locked(self._path, os.O_CREAT)
            stack.callback(os.close, fd)
            # Asked for its links behind the lock: others may have seen it before, and removed what nobody held.
            if is_locked and os.fstat(fd).st_nlink:
                os.pwrite(fd, _END, START)
                os.pwrite(fd, MAGIC + secrets.token_bytes(MARK_BYTES), 0)
                self._fd = fd
                stack.pop_all()
        return self._fd >= 0


_encode: Final = msgspec.msgpack.Encoder().encode


# ----------------------------------------------------------------------------------------------------
# Files of other processes: those of killed ones are moved to the tables, those of living ones are read.
#
# The caller commits after `catch_up` and before `remove`: a process that is killed in between leaves the file to the
# next one, which finds by the numbers of the entries that nothing is missing any more.


class PeerLogs:
    """Files of the other processes of a ledger and their records; in the `with`, nobody else removes a file.

    With `mark`, those of living processes are marked before they are read.
    """

    def __init__(self, ledger: Path, seal: Seal | NoSeal, own: str = "", *, mark: bool = False) -> None:
        self._records: dict[str, list[WriteAheadRecord]] = {}
        self._orphan_ids: set[str] = set()
        """Executions of killed processes."""
        self._orphans: list[Path] = []
        with ExitStack() as stack:
            for path in _paths(ledger, own):
                try:
                    fd, is_orphan = open_locked(path)
                except OSError:
                    continue  # another process has moved it to the tables
                stack.callback(os.close, fd)
                if not _is_log(path.name, fd):
                    continue
                if is_orphan:
                    self._orphans.append(path)
                elif mark:
                    os.pwrite(fd, secrets.token_bytes(MARK_BYTES), len(MAGIC))
                for record in _read(fd, path.name, seal):
                    self._records.setdefault(record.execution_id, []).append(record)
                    if is_orphan:
                        self._orphan_ids.add(record.execution_id)
            self._handles = stack.pop_all()

    def __enter__(self) -> PeerLogs:
        return self

    def __exit__(self, *exc: object) -> None:
        self._handles.close()

    @property
    def has_orphans(self) -> bool:
        return bool(self._orphans)

    def catch_up(self, tables: Tables, takeover_id: str = "") -> None:
        """Write the entries of killed processes, and those of the execution `takeover_id`."""
        for execution_id in sorted(self._orphan_ids | ({takeover_id} & self._records.keys())):
            count = tables.count(execution_id)
            if count is None and self._begin(tables, execution_id):
                count = 0
            if count is not None and (bodies := self.entries_after(execution_id, count)):
                with suppress(ToolfoldError):  # it has ended, or its epoch is another: then nothing is missing
                    tables.add(execution_id, 0, bodies)

    def remove(self) -> None:
        for path in self._orphans:
            _remove(path)

    def entries_after(self, execution_id: str, count: int) -> list[bytes]:
        """Entries of an execution after the first `count`."""
        bodies = []
        for record in sorted(self._records.get(execution_id, ()), key=lambda record: record.first):
            for number, body in enumerate(record.bodies, record.first):
                if number >= count:
                    bodies.append(body)
                    count = number + 1
        return bodies

    def _begin(self, tables: Tables, execution_id: str) -> bool:
        first = next((record for record in self._records[execution_id] if record.start_record), None)
        if first is None:
            return False  # it was forgotten since
        try:
            start_record = codec.decode_start(first.start_record, codec.decode_tools(first.tools))
        except msgspec.MsgspecError as error:
            _log.warning("an execution of a killed process cannot be read and is lost: %s", error)
            return False
        tables.begin(start_record, _KILLED_OWNER)
        return True


def recover_logs(ledger: Path, tables: Tables, seal: Seal | NoSeal) -> None:
    """Move the files of killed processes to the tables, before anybody else uses their connection."""
    with PeerLogs(ledger, seal) as peer_logs:
        if not peer_logs.has_orphans:
            return
        try:
            with tables.transaction():
                peer_logs.catch_up(tables)
        except sqlite3.Error as error:
            _log.warning("the files of a killed process beside the ledger are recovered at the next start: %s", error)
        else:
            peer_logs.remove()


def is_alive(ledger: Path, owner: str) -> bool:
    """Whether the process has the lock on its file; one that left removed it, one that was killed has no lock."""
    try:
        fd, is_orphan = open_locked(_folder(ledger) / owner)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # nobody can say
    os.close(fd)
    return not is_orphan


def _folder(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}-ahead")


def _paths(ledger: Path, own: str) -> list[Path]:
    try:
        return sorted(path for path in _folder(ledger).iterdir() if path.name != own) if HAS_LOCKS else []
    except OSError:
        return []  # mostly because there is no such folder


def _is_log(name: str, fd: int) -> bool:
    if not os.fstat(fd).st_nlink:
        return False  # another process has moved it to the tables
    if (os.pread(fd, len(MAGIC), 0) or MAGIC) == MAGIC:  # an empty one was never written to
        return True
    _log.warning("the file %r beside the ledger is from another version of toolfold; open it with that version", name)
    return False


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    with suppress(OSError):  # others have files there
        path.parent.rmdir()


def _read(fd: int, name: str, seal: Seal | NoSeal) -> Iterator[WriteAheadRecord]:
    data = os.pread(fd, START + 2 * MAX_BYTES, 0)
    for half in (data[START : START + MAX_BYTES], data[START + MAX_BYTES :]):
        place = 0
        while place + HEAD.size <= len(half):
            length, checksum = HEAD.unpack_from(half, place)
            place += HEAD.size
            packed = half[place : place + length]
            # Cut off in the middle of a write, whose call was not made then.
            if not length or len(packed) < length or zlib.crc32(packed) != checksum:
                break
            try:
                yield _decoder.decode(seal.open(packed, name))
            except (SealBroken, msgspec.MsgspecError):
                _log.warning("the file %r beside the ledger is damaged; everything after the damage is lost", name)
                break
            place += length


_decoder: Final = msgspec.msgpack.Decoder(WriteAheadRecord)


# ----------------------------------------------------------------------------------------------------
# Locks on files: one process has a file for itself until it closes it or ends, however it ends.


def open_locked(path: Path, flags: int = 0) -> tuple[int, bool]:
    """A handle of the file, and whether this has its lock; not where another has it, or the disk knows no locks.

    Raises:
        OSError: It cannot be opened.
    """
    handle = os.open(path, os.O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0o600)
    try:
        return handle, try_lock(handle)
    except OSError:
        return handle, False
