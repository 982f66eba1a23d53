"""Write-ahead log of a SQLite ledger: one file for each process in a folder beside the database.

A call that is unsafe to repeat is on record before it is made. A commit for each would take a thread and 0.4 ms; a
write to this file takes 3 µs, and both survive a kill of the process, but not a power cut.

1. A record holds what was noted of one execution since its last record, and the first one how it began. Entries are
   numbered within their execution, so that whoever reads the file knows which of them the tables have already.
2. The file has two halves. When the ledger's thread takes what has gathered, records go to the other half from then on;
   when that is committed, the first half is emptied. So the file stays small, however busy its process is.
3. The owner holds a lock on its file. If nobody does, the owner was killed, and `recover_logs` brings the file in.
4. Whoever takes over an execution marks the files of living processes, and then reads them. The owner writes a record,
   and then looks at the mark. One of the two comes second and sees the other: either the record is read, or the owner
   waits for a commit, where it is fenced.
5. A takeover looks for files in its transaction, and a process has its file before the first of its executions is in
   the tables. So no file is made behind the back of a takeover. Where one could not be made in time, its first mark is
   none that an execution knows: each of them waits for a commit once.
"""

from __future__ import annotations

import logging
import mmap
import os
import secrets
import sqlite3
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from toolfold.errors import SealBroken, ToolfoldError
from toolfold.ledger import codec
from toolfold.ledger.encryption import NoSeal, Seal
from toolfold.ledger.sqlite.tables import Tables
from toolfold.models import StartRecord, ToolSpec

MAGIC: Final = b"toolfold ahead 1"
MARK_BYTES: Final = 8
NO_MARK: Final = bytes(MARK_BYTES)
HEAD: Final = struct.Struct(">II")
"""Before each record: its length and its checksum. A length of 0 ends a half."""
_END: Final = bytes(HEAD.size)
_MARK: Final = slice(len(MAGIC), len(MAGIC) + MARK_BYTES)
START: Final = 4096
HALF_BYTES: Final = 512 * 1024
_MOST_BYTES: Final = 64 * 1024
"""Of one execution in one record; more is written faster by a commit, which does not stop the event loop."""


@dataclass(slots=True)
class LogBuffer:
    """What was noted of an execution that began in this process, and is not in a record yet."""

    execution_id: str
    start_record: StartRecord | None
    """Until it is in a record, or committed."""
    mark: bytes
    """The file's when the execution began. Another one since then: it may have been taken over."""
    bodies: list[bytes] = field(default_factory=list)
    size: int = 0
    first: int = 0
    """The number of the first of the bodies in its execution."""
    total: int = 0
    """Bytes of the execution so far."""
    waiting: int = 0
    """How many wait for a commit of it."""
    is_whole: bool = True
    """Nothing is missing between what is safe and the first of the bodies."""

    def add(self, body: bytes) -> None:
        """Add an entry."""
        self.bodies.append(body)
        self.size += len(body)
        if self.size > _MOST_BYTES:
            self.leave_to_commit()

    def leave_to_commit(self) -> None:
        """A commit makes safe what there is so far."""
        self.mark_written()
        self.is_whole = False

    def mark_written(self) -> None:
        """A record has what there was."""
        self.first += len(self.bodies)
        self.total += self.size
        self.bodies = []
        self.size = 0
        self.start_record = None


class WriteAheadRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Record as it is packed in the file."""

    execution_id: str
    first: int
    bodies: list[bytes]
    start_record: bytes = b""
    tools: bytes = b""


class WriteAheadLog:
    """This process's own file. It is made with the first execution, and removed when all is in the tables."""

    def __init__(self, ledger: Path, seal: Seal | NoSeal, max_execution_bytes: int) -> None:
        self._path = folder_of(ledger) / secrets.token_hex(8)
        self._seal = seal
        # An execution near its limit is told by the tables whether its entries still fit.
        self._near_limit = max_execution_bytes // 2
        self._fd = -1
        self._head: mmap.mmap | None = None
        """The file's beginning, with the mark: to look there costs no system call."""
        self._lock = threading.Lock()
        self._active = 0
        self._ends = [START, START + HALF_BYTES]
        self._is_leaving = False
        """The half that is not active has records that the thread is about to commit."""
        self._grant: tuple[tuple[ToolSpec, ...] | None, bytes] = (None, b"")
        self.mark = NO_MARK
        """As it was seen last."""
        self._is_closed = False

    @property
    def name(self) -> str:
        """Name of the file."""
        return self._path.name

    @property
    def owner(self) -> str:
        """What others find the lock of this process by; empty while it has none."""
        return self._path.name if self._fd >= 0 else ""

    def open(self) -> None:
        """Make the file, if it is not there; whoever takes over an execution of this process must find it."""
        if self._fd < 0:
            with self._lock:
                if self._fd < 0 and self._open():
                    assert self._head is not None
                    self.mark = self._head[_MARK]

    def write(self, buffer: LogBuffer) -> bool:
        """Whether all that was gathered is safe now; otherwise wait for a commit."""
        if not buffer.is_whole or buffer.waiting or buffer.total + buffer.size > self._near_limit:
            return False
        if not self._append(self._encode_record(buffer)):
            return False
        assert self._head is not None
        self.mark = mark = self._head[_MARK]
        if mark != buffer.mark:
            return False
        buffer.mark_written()
        return True

    def switch_halves(self) -> None:
        """The thread has taken all that was noted so far."""
        with self._lock:
            if not self._is_leaving and self._ends[self._active] != _start(self._active):
                self._active = 1 - self._active
                self._is_leaving = True

    def clear(self) -> None:
        """What the thread had taken is committed."""
        with self._lock:
            if self._is_leaving and self._fd >= 0:
                self._is_leaving = False
                half = 1 - self._active
                self._ends[half] = _start(half)
                with suppress(OSError):  # whoever reads the file then finds that the tables have all of it
                    os.pwrite(self._fd, _END, _start(half))

    def close(self, *, is_committed: bool) -> None:
        """Remove the file if nothing in it is needed any more."""
        with self._lock:
            self._is_closed = True
            if is_committed and self._fd >= 0:
                self._path.unlink(missing_ok=True)
                with suppress(OSError):  # others have files there
                    self._path.parent.rmdir()
            self._let_go()

    def disown(self) -> None:
        """In a forked child: the lock is the parent's alone."""
        self._let_go()

    def _let_go(self) -> None:
        if self._head is not None:
            self._head.close()  # it has a handle of its own
            self._head = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _encode_record(self, buffer: LogBuffer) -> bytes:
        fields: tuple[object, ...] = (buffer.execution_id, buffer.first, buffer.bodies)
        if buffer.start_record is not None:
            fields = (*fields, *self._encode_start(buffer.start_record))
        packed = self._seal.seal(_encode(fields), self._path.name)
        # With the end of its half behind it, which the next record overwrites: older ones may lie there.
        return _pack(len(packed), _checksum(packed)) + packed + _END

    def _append(self, data: bytes) -> bool:
        with self._lock:
            end = self._ends[self._active]
            after = end + len(data) - HEAD.size
            if after > _start(self._active) + HALF_BYTES - HEAD.size or (self._fd < 0 and not self._open()):
                return False
            try:
                # Short on a full disk; the next one is written over it.
                if os.pwrite(self._fd, data, end) != len(data):
                    return False
            except OSError:
                return False
            self._ends[self._active] = after
        return True

    def _encode_start(self, start_record: StartRecord) -> tuple[bytes, bytes]:
        cached_tools, tools = self._grant
        # By identity: a runtime grants the same one each time.
        if cached_tools is not start_record.tools:
            tools = codec.encode_tools(start_record.tools)
            self._grant = (start_record.tools, tools)
        return codec.encode_start(start_record), tools

    def _open(self) -> bool:
        """Make the file, with its lock. False where that cannot be done: a commit then says why, if it fails too."""
        if not HAS_LOCKS or self._is_closed:
            return False
        fd, first_mark = -1, secrets.token_bytes(MARK_BYTES)
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Asked for its links behind the lock: others may have found it before, and removed what nobody held.
            if lock(fd) and os.fstat(fd).st_nlink:
                for place, start in ((START + HALF_BYTES, _END), (START, _END), (0, MAGIC + first_mark)):
                    os.pwrite(fd, start, place)
                self._head = mmap.mmap(fd, START, prot=mmap.PROT_READ)
                self._fd, fd = fd, -1
        if fd >= 0:
            os.close(fd)
        return self._fd >= 0


def folder_of(ledger: Path) -> Path:
    """Folder of a ledger's write-ahead files."""
    return ledger.with_name(f"{ledger.name}-ahead")


def _start(half: int) -> int:
    return START + half * HALF_BYTES


# Named here, because they are on the way of every call.
_encode: Final = msgspec.msgpack.Encoder().encode
_pack: Final = HEAD.pack
_checksum: Final = zlib.crc32


# ----------------------------------------------------------------------------------------------------
# The `ahead` files of other processes: what the killed left is brought into the tables, what the living have is read.
#
# The caller commits what `catch_up` did before it calls `remove`: a process that is killed in between leaves the file
# to
# the next one, which finds by the numbers of the entries that nothing is missing any more.

_log = logging.getLogger("toolfold.ledger")
_KILLED_OWNER: Final = "killed"
"""An owner that has no file."""


@dataclass(frozen=True, slots=True)
class _LogFile:
    path: Path
    fd: int
    is_orphan: bool
    """Its owner was killed; nobody else reads it now."""


class PeerLogs:
    """The files of other processes beside one ledger, as they were found; use it in a `with`."""

    def __init__(
        self, files: list[_LogFile], records: dict[str, list[WriteAheadRecord]], orphan_ids: frozenset[str]
    ) -> None:
        self._files = files
        self._records = records
        self._orphan_ids = orphan_ids
        """Executions whose process was killed."""

    @property
    def has_orphans(self) -> bool:
        """Whether a killed process left a file."""
        return any(file.is_orphan for file in self._files)

    def catch_up(self, tables: Tables, takeover_id: str = "") -> None:
        """Write what the killed left, and what the living have of the execution `takeover_id`."""
        for execution_id in sorted(self._orphan_ids | ({takeover_id} & self._records.keys())):
            self._catch_up(tables, execution_id)

    def _catch_up(self, tables: Tables, execution_id: str) -> None:
        count = tables.count(execution_id)
        if count is None:
            first = next((record for record in self._records[execution_id] if record.start_record), None)
            if first is None:
                return  # it was forgotten since
            try:
                start_record = codec.decode_start(first.start_record, codec.decode_tools(first.tools))
            except msgspec.MsgspecError as error:
                _log.warning("an execution of a killed process cannot be read and is lost: %s", error)
                return
            tables.begin(start_record, _KILLED_OWNER)
            count = 0
        bodies = self.entries_after(execution_id, count)
        if bodies:
            with suppress(ToolfoldError):  # it has ended, or its epoch is another: then nothing is missing
                tables.add(execution_id, 0, bodies)

    def remove(self) -> None:
        """What the killed left is committed."""
        for file in self._files:
            if file.is_orphan:
                file.path.unlink(missing_ok=True)
                with suppress(OSError):  # others have files there
                    file.path.parent.rmdir()

    def entries_after(self, execution_id: str, count: int) -> list[bytes]:
        """The entries of an execution behind so many that the tables have."""
        bodies = []
        for record in sorted(self._records.get(execution_id, ()), key=lambda record: record.first):
            for number, body in enumerate(record.bodies, record.first):
                if number >= count:
                    bodies.append(body)
                    count = number + 1
        return bodies


@contextmanager
def open_peer_logs(ledger: Path, seal: Seal | NoSeal, own: str = "", *, mark: bool = False) -> Iterator[PeerLogs]:
    """All files but one's own; with `mark` the living know that they were read."""
    files = [file for path in _paths(ledger, own) if (file := _open(path)) is not None]
    try:
        records: dict[str, list[WriteAheadRecord]] = {}
        orphan_ids = set()
        for file in files:
            if mark and not file.is_orphan:
                os.pwrite(file.fd, secrets.token_bytes(MARK_BYTES), len(MAGIC))
            for record in _read(file, seal):
                records.setdefault(record.execution_id, []).append(record)
                if file.is_orphan:
                    orphan_ids.add(record.execution_id)
        yield PeerLogs(files, records, frozenset(orphan_ids))
    finally:
        for file in files:
            os.close(file.fd)


def recover_logs(ledger: Path, connection: sqlite3.Connection, tables: Tables, seal: Seal | NoSeal) -> None:
    """Before anybody else uses this connection: write what killed processes left."""
    with open_peer_logs(ledger, seal) as peer_logs:
        if not peer_logs.has_orphans:
            return
        try:
            connection.execute("BEGIN IMMEDIATE")
            tables.changes.begin()
            peer_logs.catch_up(tables)
            tables.write()
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            tables.drop()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            _log.warning("the files of a killed process beside the ledger are recovered at the next start: %s", error)
        else:
            peer_logs.remove()


def is_alive(ledger: Path, owner: str) -> bool:
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


def _open(path: Path) -> _LogFile | None:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None  # another process brought it in
    try:
        is_orphan = lock(fd)
    except OSError:
        is_orphan = False  # its owner had a lock, so it may have it still
    is_there = os.fstat(fd).st_nlink > 0
    if is_there and (os.pread(fd, len(MAGIC), 0) or MAGIC) == MAGIC:  # one that is empty was never written to
        return _LogFile(path, fd, is_orphan)
    os.close(fd)
    if is_there:
        _log.warning(
            "the file %r beside the ledger is from another version of toolfold; open it with that version", path.name
        )
    return None


def _read(file: _LogFile, seal: Seal | NoSeal) -> Iterator[WriteAheadRecord]:
    size = os.fstat(file.fd).st_size
    data = os.pread(file.fd, min(size, START + 2 * HALF_BYTES), 0)
    for start in (START, START + HALF_BYTES):
        yield from _half(data[start : start + HALF_BYTES], file.path.name, seal)


def _half(data: bytes, name: str, seal: Seal | NoSeal) -> Iterator[WriteAheadRecord]:
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
            _log.warning("the file %r beside the ledger is damaged; everything after the damage is lost", name)
            return
        place += length


_decoder: Final = msgspec.msgpack.Decoder(WriteAheadRecord)


# ----------------------------------------------------------------------------------------------------
# Files that one process has for itself, until it closes them or ends, however it ends.

try:
    import fcntl
except ImportError:  # on Windows nobody else is kept out
    fcntl = None  # type: ignore[assignment]

HAS_LOCKS: Final = os.name == "posix"


def lock(handle: int) -> bool:
    """Whether nobody else has the file behind this handle; then nobody else gets it.

    Raises:
        OSError: Nobody can say, as on a network share without locks.
    """
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
