"""What is safe before it is in the tables: a folder beside a SQLite ledger, with a file for each process.

A call that is unsafe to repeat is on record before it is made. A commit for each would take a thread and 0.4 ms; a
write to this file takes 3 µs, and both survive a kill of the process, but not a power cut.

1. A record holds what was noted of one execution since its last record, and the first one how it began. Entries are
   numbered within their execution, so that whoever reads the file knows which of them the tables have already.
2. The file has two halves. When the ledger's thread takes what has gathered, records go to the other half from then on;
   when that is committed, the first half is emptied. So the file stays small, however busy its process is.
3. The owner holds a lock on its file. If nobody does, the owner was killed, and `ahead_left` brings the file in.
4. Whoever takes over an execution marks the files of living processes, and then reads them. The owner writes a record,
   and then looks at the mark. One of the two comes second and sees the other: either the record is read, or the owner
   waits for a commit, where it is fenced.
5. A takeover looks for files in its transaction, and a process has its file before the first of its executions is in
   the tables. So no file is made behind the back of a takeover. Where one could not be made in time, its first mark is
   none that an execution knows: each of them waits for a commit once.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import threading
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from toolfold.ledger import codec
from toolfold.ledger.locks import HAS_LOCKS, lock
from toolfold.ledger.seal import NoSeal, Seal
from toolfold.models import Begun, ToolSpec

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
class Gathered:
    """What was noted of an execution that began in this process, and is not in a record yet."""

    execution_id: str
    begun: Begun | None
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
        """One more entry."""
        self.bodies.append(body)
        self.size += len(body)
        if self.size > _MOST_BYTES:
            self.leave()

    def leave(self) -> None:
        """A commit makes safe what there is so far."""
        self.written()
        self.is_whole = False

    def written(self) -> None:
        """A record has what there was."""
        self.first += len(self.bodies)
        self.total += self.size
        self.bodies = []
        self.size = 0
        self.begun = None


class Record(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One record, as it is packed."""

    execution_id: str
    first: int
    bodies: list[bytes]
    begun: bytes = b""
    tools: bytes = b""


class Ahead:
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
        """Of the file."""
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

    def write(self, gathered: Gathered) -> bool:
        """Whether all that was gathered is safe now; otherwise wait for a commit."""
        if not gathered.is_whole or gathered.waiting or gathered.total + gathered.size > self._near_limit:
            return False
        if not self._append(self._packed(gathered)):
            return False
        assert self._head is not None
        self.mark = mark = self._head[_MARK]
        if mark != gathered.mark:
            return False
        gathered.written()
        return True

    def turn(self) -> None:
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
                left = 1 - self._active
                self._ends[left] = _start(left)
                with suppress(OSError):  # whoever reads the file then finds that the tables have all of it
                    os.pwrite(self._fd, _END, _start(left))

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

    def _packed(self, gathered: Gathered) -> bytes:
        fields: tuple[object, ...] = (gathered.execution_id, gathered.first, gathered.bodies)
        if gathered.begun is not None:
            fields = (*fields, *self._beginning(gathered.begun))
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

    def _beginning(self, begun: Begun) -> tuple[bytes, bytes]:
        known, tools = self._grant
        # By identity: a runtime grants the same one each time.
        if known is not begun.tools:
            tools = codec.encode_tools(begun.tools)
            self._grant = (begun.tools, tools)
        return codec.encode_begun(begun), tools

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
    """Of a ledger's files."""
    return ledger.with_name(f"{ledger.name}-ahead")


def _start(half: int) -> int:
    return START + half * HALF_BYTES


# Named here, because they are on the way of every call.
_encode: Final = msgspec.msgpack.Encoder().encode
_pack: Final = HEAD.pack
_checksum: Final = zlib.crc32
