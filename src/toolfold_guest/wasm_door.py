"""Guest on WebAssembly: the door to its host in place of a socket.

The host gives one function, `_host.call`: bytes out, bytes in, after a wait of so many milliseconds. Out of it this
module makes what the rest of the guest takes for a socket, for a poll and for a selector, so that a call and its reply
are one exchange: frames leave with the next wait. `prepare` runs before the snapshot of the interpreter's memory,
`serve` in each copy of it. There are no signals: output leaves by itself when none has left for a while.
"""

import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import _host  # type: ignore[import-not-found]  # of the interpreter's build

from toolfold_guest import main, preload
from toolfold_guest.calls import message_transport
from toolfold_guest.program import event_loop, replay
from toolfold_guest.program.output_streams import Outlet
from toolfold_guest.shared.wire_format import CALLS
from toolfold_guest.stdlib import in_place_threads, interpreter_patches

_FD: Final = 3
"""Stands for the door where a descriptor is asked for. It is that of a folder, which nothing ever waits for."""
_FOR_EVER: Final = 0xFFFFFFFF
_CPU_TIME: Final = 0xFFFFFFFD
"""In place of milliseconds: asks how much CPU time the program has used. The C library only has the clock's."""
_LARGE_BYTES: Final = 2000
"""A frame of calls that is larger leaves at once, so that the host serves them meanwhile."""
_SILENT_SECONDS: Final = 0.1
_pack = struct.Struct("<I").pack
_now = time.monotonic
_CALLS_KIND: Final = b"%d" % CALLS


class Door:
    """What the guest takes for its socket, and for its patience with it."""

    is_retry = False

    def __init__(self, call: Callable[[bytes], bytes]) -> None:
        self._call = call
        self._frames: list[bytes] = []
        self.unread = b""
        self.sent_at = 0.0

    def exchange(self, milliseconds: int) -> bytes:
        """Send what has gathered and wait for something to read; what there is to read."""
        frames = self._frames
        if frames:
            request = _pack(milliseconds) + b"".join(frames)
            frames.clear()
        else:
            request = _pack(milliseconds)
        reply = self._call(request)
        if reply:
            self.unread += reply
        return self.unread

    # a socket

    def fileno(self) -> int:
        return _FD

    def recv_into(self, buffer: Any) -> int:
        data = self.unread or self.exchange(_FOR_EVER)
        size, room = len(data), len(buffer)
        if size <= room:
            buffer[:size] = data
            self.unread = b""
            return size
        buffer[:] = data[:room]
        self.unread = data[room:]
        return room

    def send(self, frame: bytes) -> int:
        self._frames.append(frame)
        # Its kind is the first number of its array, after the header.
        if len(frame) > _LARGE_BYTES or frame[5:6] != _CALLS_KIND:
            self.sent_at = _now()
            self.exchange(0)
        return len(frame)

    # its patience

    def poll(self, milliseconds: float | None = None) -> bool:
        return bool(self.unread or self.exchange(_FOR_EVER if milliseconds is None else int(milliseconds + 0.999)))

    def sees(self, looks: int = 0) -> bool:
        return False


class DoorSelector(event_loop.GuestSelector):
    """The door is all that a loop can wait for here."""

    def look(self, timeout: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        key, door = self.get_map().get(_FD), _state.door
        if timeout is not None and timeout <= 0:
            # A turn of a busy loop; at every 64th it really looks.
            is_ready = bool(door.unread) or (not self.busy_turns % event_loop.BUSY_TURNS and bool(door.exchange(0)))
        elif key is None and timeout is not None:
            # Nobody reads: what the host sends must not end the wait.
            door.exchange(0)
            time.sleep(timeout)
            return []
        elif key is None and in_place_threads.is_in_thread():
            raise RuntimeError(in_place_threads.NOBODY)
        else:
            is_ready = door.poll(None if timeout is None else timeout * 1000)
        return [(key, selectors.EVENT_READ)] if is_ready and key is not None else []


class DoorOutlet(Outlet):
    """Sends what was printed when nothing has left for a while: the host has no way to ask for it."""

    def write(self, data: object) -> int:
        size = super().write(data)
        if _now() - _state.door.sent_at > _SILENT_SECONDS:
            self.full()
        return size


class _DoorState:
    door: Door


_state = _DoorState()


class _Script:
    """A host that has its answers ready, for rehearsals."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames
        self._requests: list[bytes] = []
        self.guest_end = _state.door = Door(self._answer)

    def _answer(self, request: bytes) -> bytes:
        self._requests.append(request[4:])
        return self._frames.pop(0) if self._frames and request[:4] != _pack(0) else b""

    def output(self) -> bytes:
        return b"".join(self._requests)


def prepare(library_set: str) -> None:
    """Load all that programs start with. Called once, before the snapshot."""
    event_loop.GuestLoop.selector_type = DoorSelector
    message_transport.GuestInbox.make_patience = staticmethod(lambda door: door)
    main.rehearsal_script = _Script
    main.outlet_type = DoorOutlet
    replay.set_input = _set_input
    # Missing altogether, where elsewhere they fail.
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex"):
        setattr(socket, name, _find_no_host)
    os.chdir("/mnt/data")
    for name in ("process_time", "thread_time"):
        setattr(time, name, lambda: _cpu_ns() / 1e9)
        setattr(time, f"{name}_ns", _cpu_ns)
    preload.preload_stdlib()
    in_place_threads.prepare()
    # Fewer than in the process engine's guest, whose zygote is below them.
    interpreter_patches.OWN_FRAMES = 7
    _state.door = Door(_host.call)
    main.prepare(library_set)
    # So that a line is in the outlet when it is printed.
    for stream in main.streams():
        stream.reconfigure(line_buffering=True)
    sys.path.append("/mnt/data")
    main.use_folder("/mnt/data")


def _cpu_ns() -> int:
    return int.from_bytes(_host.call(_pack(_CPU_TIME)), "little")


def _find_no_host(*_: Any, **__: Any) -> Any:
    raise socket.gaierror(-3, "Temporary failure in name resolution")


def _set_input(data: bytes | None) -> None:
    with open("/dev/stdin", "wb") as file:
        file.write(data or b"")
    os.lseek(0, 0, os.SEEK_SET)
    replay.open_stdin()


def serve() -> None:
    """Run programs, one or a session's. Called in each copy of the snapshot."""
    door = _state.door = Door(_host.call)
    while main.serve(door):
        pass
    door.exchange(0)
