"""Worker processes of the wasm engine: their slots, the programs that have them, and the idle ones of sessions.

A worker is a plain child process with a few slots, each with a stream of its own and an instance that waits for a
program. Where descriptors cannot be handed to a child, a worker has one slot, on its standard streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections import deque
from typing import TYPE_CHECKING, Final

from toolfold.engines.base import NOT_OPEN
from toolfold.engines.wasm import messages
from toolfold.errors import EngineCrashed, EngineUnavailable
from toolfold.models import MIB

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SLOTS: Final = 4 if os.name == "posix" else 1
_READY_SECONDS: Final = 60.0
_MAX_BODY_BYTES: Final = 256 * MIB
_READ_BYTES: Final = 256 * 1024
_VARIABLES: Final = ("PATH", "LANG", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "PYTHONPATH", "LD_LIBRARY_PATH")
"""Of the environment, what a child may need to start."""
_LAST_WORDS_BYTES: Final = 2000


class Slot:
    """One slot of a worker, and the program that has it."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.files: frozenset[str] = frozenset()
        """That the session's earlier programs left."""
        self.is_kept = False
        """It has served a program of its session."""
        self.max_body_bytes = _MAX_BODY_BYTES
        self.ready = asyncio.get_running_loop().create_future()
        self._heed: Callable[[int, bytes], None] | None = None
        self._partial = bytearray()

    @property
    def is_gone(self) -> bool:
        return self.worker.is_gone

    def listen(self, heed: Callable[[int, bytes], None] | None) -> None:
        self._heed = heed

    def send(self, kind: int, body: bytes = b"") -> None:
        """Harmless once the worker is gone."""
        if not self.is_gone:
            self._write(messages.message(kind, body))

    def finish(self, *, is_kept: bool, with_files: bool = False) -> None:
        """The program is over. Unless the instance is kept, the next one is made at once."""
        if not is_kept and not self.is_gone:
            self.ready = asyncio.get_running_loop().create_future()
        self.send(messages.FINISH, json.dumps({"keep": is_kept, "files": with_files}).encode())

    def discard(self) -> None:
        """End the worker, with all that runs in it."""
        self.worker.kill()

    def _write(self, data: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """The worker has ended."""
        if not self.ready.done():
            self.ready.set_exception(EngineCrashed("the worker of the sandbox has ended"))
            self.ready.exception()  # nobody may wait for it
        if self._heed is not None:
            self._heed(messages.GONE, b"")

    def _received(self, data: bytes) -> None:
        self._partial += data
        partial, position = self._partial, 0
        while len(partial) - position >= messages.HEADER.size:
            length, kind = messages.HEADER.unpack_from(partial, position)
            if length > self.max_body_bytes:
                self.discard()
                return
            start = position + messages.HEADER.size
            if start + length > len(partial):
                break
            position = start + length
            body = bytes(memoryview(partial)[start:position])
            if kind == messages.READY:
                # The first one says what holds the process.
                self.worker.greeting = self.worker.greeting or body
                if not self.ready.done():
                    self.ready.set_result(None)
            elif self._heed is not None:
                self._heed(kind, body)
        del partial[:position]


class SocketSlot(Slot):
    """A slot with a socket."""

    def __init__(self, worker: Worker, sock: socket.socket) -> None:
        super().__init__(worker)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        sock.setblocking(False)
        self._loop.add_reader(sock.fileno(), self._readable)

    def close(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        super().close()

    def _readable(self) -> None:
        try:
            data = self._sock.recv(_READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if data:
            self._received(data)
        else:
            self._loop.remove_reader(self._sock.fileno())
            self.discard()

    def _write(self, data: bytes) -> None:
        if self._unsent:
            self._unsent.append(memoryview(data))
            self._unsent_bytes += len(data)
            # A worker reads whatever its program does; this one is no longer what it was.
            if self._unsent_bytes > _MAX_BODY_BYTES:
                self.discard()
            return
        try:
            sent = self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return  # the reader will see the end
        if sent < len(data):
            self._unsent.append(memoryview(data)[sent:])
            self._loop.add_writer(self._sock.fileno(), self._writable)

    def _writable(self) -> None:
        while self._unsent:
            data = self._unsent.popleft()
            self._unsent_bytes = max(0, self._unsent_bytes - len(data))
            try:
                sent = self._sock.send(data)
            except (BlockingIOError, InterruptedError):
                sent = 0
            except OSError:
                self._unsent.clear()
                break
            if sent < len(data):
                self._unsent.appendleft(data[sent:])
                return
        self._loop.remove_writer(self._sock.fileno())


class PipeSlot(Slot):
    """The only slot of a worker, on its standard streams."""

    def __init__(self, worker: Worker, process: asyncio.subprocess.Process) -> None:
        super().__init__(worker)
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while data := await self._stdout.read(_READ_BYTES):
            self._received(data)
        self.discard()

    def _write(self, data: bytes) -> None:
        self._stdin.write(data)


class Worker:
    """One worker process, its free slots and its last words."""

    def __init__(self, process: asyncio.subprocess.Process, pool: WorkerPool) -> None:
        self.process, self.pool = process, pool
        self.slots: list[Slot] = []
        self.busy = 0
        self.is_gone = False
        self.greeting = b""
        """Layers around the process, as JSON, once it is ready. What a hostile one says of itself proves nothing."""
        self.last_words = b""
        self.over = asyncio.create_task(self._watch())
        pool.watches.add(self.over)
        self.over.add_done_callback(pool.watches.discard)

    def kill(self) -> None:
        if self.is_gone:
            return
        self.is_gone = True
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        for slot in self.slots:
            slot.close()
        self.pool.forget(self)

    async def _watch(self) -> None:
        assert self.process.stderr is not None
        while text := await self.process.stderr.read(_READ_BYTES):
            self.last_words = (self.last_words + text)[-_LAST_WORDS_BYTES:]
        await self.process.wait()
        self.kill()


class WorkerPool:
    """Workers of one library set.

    Args:
        cache: The folder with what was compiled.
        library_set: What its instances have imported: `bare` or `data`.
        warm: How many workers are started before they are needed.
    """

    def __init__(self, cache: Path, library_set: str, warm: int) -> None:
        self._cache, self._library_set, self._warm = cache, library_set, max(1, warm)
        self._workers: list[Worker] = []
        self._free: list[Slot] = []
        self._starting: set[asyncio.Task[None]] = set()
        self.watches: set[asyncio.Task[None]] = set()
        """One for each process that has not ended."""
        self._is_open = True

    async def start(self) -> None:
        """Start the first worker, and wait until a program can run."""
        await self._spawn()
        await self._until_ready(self._free[0])
        self._top_up()

    def layers(self) -> tuple[str, ...]:
        """What its workers gave up on this machine, once one is ready; the instance itself is the wall."""
        greeting = next((worker.greeting for worker in self._workers if worker.greeting), b"{}")
        return tuple(json.loads(greeting).get("layers", ()))

    async def take(self) -> Slot:
        """A slot with an instance."""
        while True:
            if not self._is_open:
                raise EngineUnavailable(NOT_OPEN)
            if not self._free:
                # Whoever waits may leave; a process that is half started is still ours.
                await asyncio.shield(self._spawn())
            # Where the fewest programs are, so that they have several cores.
            slot = min(self._free, key=lambda slot: (not slot.ready.done(), slot.worker.busy))
            self._free.remove(slot)
            slot.worker.busy += 1
            self._top_up()
            await self._until_ready(slot)
            return slot

    async def _until_ready(self, slot: Slot) -> None:
        try:
            async with asyncio.timeout(_READY_SECONDS):
                await asyncio.shield(slot.ready)
        except EngineCrashed as error:
            await slot.worker.over
            words = slot.worker.last_words.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise EngineUnavailable(f"the wasm engine's worker does not start: {words or error}") from None
        except TimeoutError:
            slot.discard()
            raise EngineUnavailable("the wasm engine's worker does not start in time") from None
        except BaseException:
            if slot not in self._free:
                self.give_back(slot)
            raise

    def give_back(self, slot: Slot) -> None:
        """It makes its next instance by itself."""
        slot.listen(None)
        slot.worker.busy -= 1
        if slot.is_gone:
            return
        slot.is_kept, slot.files, slot.max_body_bytes = False, frozenset(), _MAX_BODY_BYTES
        self._free.append(slot)

    def end(self, slot: Slot) -> None:
        """End the instance that a session kept."""
        slot.finish(is_kept=False)
        self.give_back(slot)

    def _top_up(self) -> None:
        if self._is_open and len(self._workers) + len(self._starting) < self._warm:
            self._spawn()

    def _spawn(self) -> asyncio.Task[None]:
        task = asyncio.create_task(self._start_worker())
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)
        return task

    async def _start_worker(self) -> None:
        pairs = [socket.socketpair() for _ in range(SLOTS)] if os.name == "posix" else []
        fds = [theirs.fileno() for _, theirs in pairs]
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-s", "-m", "toolfold.engines.wasm.worker",
                stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL if pairs else asyncio.subprocess.PIPE,
                pass_fds=fds, env={name: os.environ[name] for name in _VARIABLES if name in os.environ},
            )  # fmt: skip
        finally:
            for _, theirs in pairs:
                theirs.close()
        worker = Worker(process, self)
        worker.slots += [SocketSlot(worker, ours) for ours, _ in pairs] or [PipeSlot(worker, process)]
        assert process.stdin is not None
        settings = {"library_set": self._library_set, "slots": fds, "cache": str(self._cache)}
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        if not self._is_open:
            worker.kill()
            await worker.over
            return
        self._workers.append(worker)
        self._free += worker.slots

    def forget(self, worker: Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        self._free = [slot for slot in self._free if slot.worker is not worker]

    async def close(self) -> None:
        self._is_open = False
        await asyncio.gather(*self._starting, return_exceptions=True)
        for worker in tuple(self._workers):
            worker.kill()
        await asyncio.gather(*self.watches)
