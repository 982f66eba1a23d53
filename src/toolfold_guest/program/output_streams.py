"""Output streams of a program: text to bytes, buffered until the next frame leaves."""

import codecs
import ctypes
import io
import os
from collections.abc import Callable
from typing import Any

from toolfold_guest.stdlib_names import SEEK_END, seek

SHIP_AT_BYTES = 64 * 1024
_flush = io.TextIOWrapper.flush  # found once: both streams are gathered with every call
KEEP_BYTES = 8 * 1024 * 1024  # what the ledger keeps; more is counted and dropped here


class Outlet(io.RawIOBase):
    """One stream. Whoever sends a frame takes what has gathered."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor
        self.name = ("<stdout>", "<stderr>")[descriptor - 1]
        self._decoder: Any = codecs.getincrementaldecoder("utf-8")("replace")
        self.reset()
        self.full: Callable[[], None] = lambda: None
        """Called when enough has gathered for a frame of its own."""

    def reset(self) -> None:
        """As new: what a rehearsal wrote is no program's output."""
        self.cut_bytes = 0
        self._kept_bytes = 0
        self._chunks: list[bytes] = []
        self._gathered_bytes = 0
        # Half a character is rare, and to ask is two pages where to reset is eight.
        if self._decoder.buffer:
            self._decoder.reset()

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """What is written there past this object is added at the end of the program."""
        return self._descriptor

    def reopen(self) -> None:
        """As if it had never been closed; what was written is still here to be taken."""
        self.__dict__.pop("__IOBase_closed", None)  # where `io` keeps it

    def write(self, data: object) -> int:
        chunk = bytes(data)  # type: ignore[call-overload]  # any buffer; typeshed has no stdlib name for it at 3.11
        size = len(chunk)
        room = KEEP_BYTES - self._kept_bytes
        # Counted but not kept: the outcome says how much was cut.
        if size > room:
            self.cut_bytes += size - room
            chunk = chunk[:room]
        self._kept_bytes += len(chunk)
        if len(chunk) <= SHIP_AT_BYTES:
            self._gather(chunk)
        else:  # in parts: the host takes no frame with much more than that
            for start in range(0, len(chunk), SHIP_AT_BYTES):
                self._gather(chunk[start : start + SHIP_AT_BYTES])
        return size

    def _gather(self, chunk: bytes) -> None:
        self._gathered_bytes += len(chunk)
        self._chunks.append(chunk)
        if self._gathered_bytes >= SHIP_AT_BYTES:
            self.full()

    def take(self) -> str:
        """The text since the last take; half a character waits for its other half."""
        if not self._chunks:
            return ""
        chunks, self._chunks, self._gathered_bytes = self._chunks, [], 0
        text: str = self._decoder.decode(b"".join(chunks))
        return text


class Stream(io.TextIOWrapper):
    """A text file over an outlet, as full as the interpreter's own: `.buffer`, `.encoding`, ..."""

    def __init__(self, outlet: Outlet) -> None:
        super().__init__(io.BufferedWriter(outlet), encoding="utf-8", errors="backslashreplace", newline="\n")
        self._outlet = outlet

    def flush(self) -> None:
        """The program wants to be heard now."""
        super().flush()
        self._outlet.full()

    def gather(self) -> None:
        if not self.closed:
            _flush(self)

    def reopen(self) -> None:
        """For the next program of a session, which finds its streams open as every program does."""
        if self.closed:
            self.__init__(self._outlet)  # type: ignore[misc]  # others hold this object, so no new one will do
            # Last: the old buffer goes away above, and would close what is open again.
            self._outlet.reopen()


def add_low_level_output(streams: tuple[Stream, Stream], text: str = "") -> None:
    """What C code or `os.write(1, ...)` wrote lies in the files behind descriptors 1 and 2."""
    if "ctypes" in text and hasattr(ctypes, "pythonapi"):
        # What `printf` of a C library left in its buffer.
        ctypes.CDLL(None).fflush(None)
    for descriptor, stream in enumerate(streams, 1):
        try:
            # Empty for nearly every program, and to ask is one system call.
            size = seek(descriptor, 0, SEEK_END)
            if size > 0:
                stream.reopen()
                if descriptor == 2:
                    # As under the interpreter, whose stderr keeps no line back.
                    stream.gather()
                stream.buffer.write(os.pread(descriptor, size, 0))
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
        except OSError:
            # The program closed it, or put something else there.
            continue
