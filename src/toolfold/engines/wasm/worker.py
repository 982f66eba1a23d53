"""Worker process of the wasm engine: slots, each with a thread that runs one instance after the other.

Rules:
1. A slot's thread reads its own link, also in the middle of a program: at each epoch it looks for an order to stop.
2. The guest is inside of an exchange or it computes. An exchange waits on the link, so any message ends it.
3. The process ends with its standard input.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time
from collections import deque
from typing import Any, Final, NamedTuple, Protocol

from toolfold.engines.wasm import artifacts
from toolfold.engines.wasm.instance import (
    SERVE,
    STACK_BYTES,
    Instance,
    Interpreter,
    Interrupted,
    Snapshot,
    make_snapshots,
)
from toolfold.engines.wasm.messages import (
    DIED,
    FILES,
    FINISH,
    FRAMES,
    HEADER,
    OPEN,
    READY,
    STOP,
    encode_files,
)
from toolfold.engines.wasm.messages import (
    message as packed,
)

GUEST_FRAMES: Final = 130
"""What the guest sends, as it is."""
FOR_EVER, CPU_TIME = 0xFFFFFFFF, 0xFFFFFFFD
"""A wait without an end; and none, but a question for the CPU time."""
_READ_BYTES: Final = 1 << 16
_MOST_REPLY_BYTES: Final = 1 << 20
"""Of one exchange; the rest comes with the next."""


class Message(NamedTuple):
    """One order of the host."""

    kind: int
    body: bytes


class _Bytes(Protocol):
    """Where a link's bytes come from and go to."""

    def receive(self, seconds: float | None) -> bytes | None:
        """Some bytes; none at the end; `None` if there were none in time."""

    def send(self, data: bytes) -> None: ...


class SocketBytes:
    """One end of a socket pair."""

    def __init__(self, descriptor: int) -> None:
        self._sock = socket.socket(fileno=descriptor)
        self._sock.setblocking(True)
        self._receive, self.send = self._sock.recv, self._sock.sendall
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def receive(self, seconds: float | None) -> bytes | None:
        try:
            if seconds is None:
                return self._receive(_READ_BYTES)
            if seconds == 0:
                return self._receive(_READ_BYTES, socket.MSG_DONTWAIT)
            return self._receive(_READ_BYTES) if self._poll.poll(seconds * 1000) else None
        except BlockingIOError:
            return None
        except OSError:
            return b""


class PipeBytes:
    """Standard input and output, read by the main thread, for systems on which no other can look at a pipe."""

    def __init__(self) -> None:
        import queue  # noqa: PLC0415  # on few systems only

        self._chunks: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._empty = queue.Empty

    def feed(self, chunk: bytes) -> None:
        self._chunks.put(chunk)

    def receive(self, seconds: float | None) -> bytes | None:
        try:
            return self._chunks.get(timeout=seconds) if seconds != 0 else self._chunks.get_nowait()
        except self._empty:
            return None

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]


class Link:
    """Messages of one slot, in their order; whether one of those that wait is an order to stop is known ahead."""

    def __init__(self, source: _Bytes) -> None:
        self._source = source
        self._rest = bytearray()
        self.messages: deque[Message] = deque()
        self.must_stop = False
        """There is an order that a guest has to be interrupted for, or there will be none: the host is gone."""
        self.is_closed = False

    def send(self, kind: int, body: bytes = b"") -> None:
        try:
            self._source.send(packed(kind, body))
        except OSError:
            self.is_closed = self.must_stop = True

    def receive(self, seconds: float | None = None) -> Message | None:
        """The next message; `None` if none came in time, or none will."""
        messages = self.messages
        if not messages and not self.is_closed:
            if seconds is None or seconds == 0:
                while self._read(seconds) and not messages:
                    pass
            else:
                end = time.monotonic() + seconds
                while self._read(max(0.0, end - time.monotonic())) and not messages:
                    pass
        return messages.popleft() if messages else None

    def look(self) -> None:
        """Take in all that is there, without waiting."""
        while not self.is_closed and self._read(0):
            pass

    def _read(self, seconds: float | None) -> bool:
        """Read once, and say whether there was anything: a part of a message, or some."""
        data = self._source.receive(seconds)
        if not data:
            self.is_closed = data is not None
            self.must_stop = self.must_stop or self.is_closed
            return False
        rest = self._rest
        # Nearly always: a message that came alone and whole.
        if not rest and len(data) >= HEADER.size:
            size, kind = HEADER.unpack_from(data)
            if len(data) == HEADER.size + size:
                self._add(kind, data[HEADER.size :])
                return True
        rest += data
        start = 0
        while len(rest) - start >= HEADER.size:
            size, kind = HEADER.unpack_from(rest, start)
            end = start + HEADER.size + size
            if len(rest) < end:
                break
            self._add(kind, bytes(rest[start + HEADER.size : end]))
            start = end
        del rest[:start]
        return True

    def _add(self, kind: int, body: bytes) -> None:
        self.messages.append(Message(kind, body))
        if kind in (STOP, FINISH):
            self.must_stop = True


class Slot:
    """Runs programs of one link, each in an instance of its own unless it is a session's next one."""

    def __init__(self, link: Link, machine: Interpreter, snapshot: Snapshot, layers: list[str]) -> None:
        self._link, self._machine, self._snapshot = link, machine, snapshot
        self._greeting = json.dumps({"layers": layers}).encode()
        """Goes with the first `READY`: what holds this process."""
        self._frames: deque[bytes] = deque()
        self._is_open = False
        """A program is in the instance, or the host has yet to say that it is done with it."""
        self._is_finished = False
        self._cpu_limit_ns = 0
        self._cpu_start_ns = 0
        self._most_unread = 0
        self._instance: Instance | None = None

    def serve(self) -> None:
        while not self._link.is_closed:
            instance = self._instance = Instance(self._machine, self._exchange, self._interrupt)
            instance.files.wait = self._sleep
            instance.files.cpu_ns = self._cpu_ns
            self._snapshot.restore(instance)
            self._frames.clear()
            self._is_finished = self._is_open = self._link.must_stop = False
            self._link.send(READY, self._greeting)
            self._greeting = b""
            try:
                self._serve_one(instance)
            except Interrupted:  # before its program or after it
                pass
            finally:
                self._machine.set_active(self, is_active=False)
                instance.close()

    def _serve_one(self, instance: Instance) -> None:
        while not self._frames:
            self._obey(self._next_message())
        self._machine.set_active(self, is_active=True)
        instance.turn(SERVE)
        self._machine.set_active(self, is_active=False)
        if instance.mishap is not None:  # a defect of ours, which the guest took for an error of its own
            print(f"wasm: {type(instance.mishap).__name__}: {instance.mishap}", file=sys.stderr)  # noqa: T201  # for the host
        if self._is_finished:
            return
        if instance.ending is not None:
            self._send_death(instance.ending.reason, instance.ending.detail)
        while not self._is_finished:
            message = self._next_message()
            # Sent when the guest had ended already.
            if message.kind == STOP:
                if instance.ending is None:
                    self._send_death("stopped", "")
            else:
                self._obey(message, may_keep=False)

    def _next_message(self) -> Message:
        message = self._link.receive()
        if message is None:
            raise Interrupted("stopped", "the host is gone")
        return message

    def _send_death(self, reason: str, detail: str) -> None:
        self._link.send(DIED, json.dumps({"reason": reason, "detail": detail[:2000]}).encode())

    def _obey(self, message: Message, *, may_keep: bool = True) -> None:
        instance = self._instance
        assert instance is not None
        if message.kind == FRAMES:
            self._frames.append(message.body)
            if may_keep:
                self._check_unread()
        elif message.kind == OPEN:
            limits: dict[str, Any] = json.loads(message.body)
            instance.limit_memory(min(self._snapshot.size + limits["memory_bytes"], 1 << 32))
            instance.files.limit(limits["data_bytes"], limits["data_files"])
            self._most_unread = limits["unread_bytes"]
            self._cpu_limit_ns = int(limits["cpu_seconds"] * 1e9)
            self._cpu_start_ns = time.thread_time_ns()
            self._machine.set_active(self, is_active=True)
        elif message.kind == FINISH:
            order = json.loads(message.body)
            if order["files"]:
                files = {path: node.data for path, node in instance.files.files()}
                self._link.send(FILES, encode_files(files))
            self._link.must_stop = False
            if not (order["keep"] and may_keep):
                self._is_finished = True
                raise Interrupted("finished")
        elif message.kind == STOP:
            self._link.must_stop = False
            raise Interrupted("stopped")

    # what the guest calls, on this thread

    def _exchange(self, wait: int, frames: bytes) -> bytes:
        link, waiting = self._link, self._frames
        if wait == CPU_TIME:
            return self._cpu_ns().to_bytes(8, "little")
        if frames:
            link.send(GUEST_FRAMES, frames)
        if not waiting:
            if wait:
                self._machine.set_active(self, is_active=False)
            message = link.receive(None if wait == FOR_EVER else wait / 1000)
            while message is not None and not waiting:
                self._obey(message)
                if not waiting:
                    message = link.receive(None if wait == FOR_EVER else 0)
        self._machine.set_active(self, is_active=True)
        if link.must_stop:
            self._heed_orders()
        if not waiting:
            return b""
        reply = waiting.popleft()
        if len(reply) > _MOST_REPLY_BYTES:
            waiting.appendleft(reply[_MOST_REPLY_BYTES:])
            reply = reply[:_MOST_REPLY_BYTES]
        return reply

    def _sleep(self, seconds: float) -> None:
        link = self._link
        end = time.monotonic() + min(seconds, threading.TIMEOUT_MAX)
        while not link.must_stop:
            left = end - time.monotonic()
            if left <= 0:
                return
            message = link.receive(left)
            if message is not None:
                self._obey(message)
        self._heed_orders()

    def _heed_orders(self) -> None:
        """Carry out what waits in the link, up to what ends the guest."""
        while self._link.must_stop:
            self._obey(self._next_message())

    def _check_unread(self) -> None:
        """What the host sends must not gather here, for a guest that does not take it."""
        unread = sum(map(len, self._frames)) + sum(len(message.body) for message in self._link.messages)
        if unread > self._most_unread:
            raise Interrupted("unread")

    def _cpu_ns(self) -> int:
        return time.thread_time_ns() - self._cpu_start_ns

    def _interrupt(self) -> None:
        if self._cpu_limit_ns and self._cpu_ns() > self._cpu_limit_ns:
            raise Interrupted("cpu", f"the program used its {self._cpu_limit_ns / 1e9:g} seconds of processor time")
        self._link.look()
        self._heed_orders()
        self._check_unread()


def confine() -> list[str]:
    """Give up what this process no longer needs, should a program ever break out of its instance; what was given up.

    The instance is the wall, and stands on any system. These are further ones, where Linux has them.
    """
    if sys.platform != "linux":
        return []
    # The parts of the process engine's jail that need no namespace.
    import resource  # noqa: PLC0415  # not on every system

    from toolfold_guest.jail import kernel_calls, lockdown  # noqa: PLC0415  # the same

    def limit() -> None:
        for name in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE):
            resource.setrlimit(name, (0, 0))

    def drop_rights() -> None:
        kernel_calls.drop_bounding_set()
        kernel_calls.drop_capabilities()

    def close_files() -> None:
        # No file and no folder has a rule, so none can be opened; those that are open stay.
        # The folder's own descriptor is among them, and closed by now.
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
        steps = kernel_calls.SyscallList([number for number in numbers if os.path.exists(f"/proc/self/fd/{number}")])
        lockdown.Ruleset(lockdown.version(), may_execute=False).plan(steps, ())
        kernel_calls.take(steps.planned())

    def filter_calls() -> None:
        assert kernel_calls.MACHINE is not None
        lockdown.load_filter(lockdown.compile_base(kernel_calls.MACHINE))
        lockdown.load_filter(lockdown.compile_guest(kernel_calls.MACHINE, os.getpid(), attributes=False))

    held = []
    steps = (kernel_calls.no_new_privileges, limit, drop_rights, close_files, filter_calls)
    for name, layer in zip(artifacts.WORKER_LAYERS, steps, strict=True):
        try:
            layer()
        except (AssertionError, OSError, kernel_calls.JailError):
            continue
        held.append(name)
    return held


def prepare(folder: str) -> None:
    """In a process of its own: fill the cache, with a line of text on standard output for each step."""
    cache = artifacts.locate(folder)

    def report(line: str) -> None:
        print(line, flush=True)  # noqa: T201  # that is how the process reports

    try:
        with artifacts.locked(cache, report):
            artifacts.compile_code(cache, report)
            make_snapshots(Interpreter(cache), report)
    except (artifacts.ArtifactError, OSError) as error:
        report((error.strerror if isinstance(error, OSError) else "") or str(error))
        os._exit(1)  # from a thread


def main() -> None:
    # Not through a buffer, which could swallow the beginning of what follows.
    line = bytearray()
    while not line.endswith(b"\n"):
        character = os.read(0, 1)
        if not character:
            return
        line += character
    order = json.loads(line)
    cache = artifacts.locate(order["cache"])
    machine, snapshot = Interpreter(cache), Snapshot(cache, order["library_set"])
    sources: list[Any] = [SocketBytes(descriptor) for descriptor in order["slots"]] or [PipeBytes()]
    # All that it needs is loaded and open, and threads inherit it.
    layers = confine()
    machine.start_epochs()
    threading.stack_size(STACK_BYTES)
    for source in sources:
        slot = Slot(Link(source), machine, snapshot, layers)
        threading.Thread(target=slot.serve, daemon=True).start()
    while chunk := os.read(0, _READ_BYTES):
        if not order["slots"]:
            sources[0].feed(chunk)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["prepare"]:
        threading.stack_size(STACK_BYTES)
        threading.Thread(target=prepare, args=sys.argv[2:]).start()
    else:
        main()
