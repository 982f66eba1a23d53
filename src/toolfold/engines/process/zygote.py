"""The host's handle of one fork server and of the guests that it forks.

Rules:
1. `Zygote.start` either has every layer of its tier or raises; nothing runs in between.
2. A guest sends one descriptor, before any program is there; after that plain `recv` drops them.
3. How a guest ended is what the zygote's `waitpid` saw, never the guest's word.
4. Whoever dies first, nothing stays: the zygote ends with the control socket, its guests with it.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import dataclasses
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from toolfold import forks
from toolfold.engines.process import cores, layout
from toolfold.engines.process.frames import program_frame
from toolfold.engines.process.memory import held_bytes
from toolfold.engines.process.pidfd import pid_of
from toolfold.engines.process.processes import most_processes
from toolfold.engines.process.tiers import Tier
from toolfold.errors import EngineCrashed, EngineError, EngineUnavailable
from toolfold.models import LibrarySet, Limits, ToolSpec
from toolfold_guest.jail.folders import remove_tree

MAX_MESSAGE_BYTES: Final = 1 << 20
START_SECONDS: Final = 60.0
END_SECONDS: Final = 5.0
# A message carries at most 253 descriptors.
_GUESTS_PER_MESSAGE: Final = 64
_DATA: Final = b"D"
_READY: Final = b"R"
_MAX_REASON_BYTES: Final = 1000
MOST_TOLD_BYTES: Final = 64 * 1024
"""Fits into the buffer of an idle socket; and what takes longer to check gains little from it."""
_KILLED: Final = -int(signal.SIGKILL)


class Guest:
    """One forked, locked guest that waits on its socket for what its loop understands."""

    def __init__(self, zygote: Zygote | None, identity: int, sock: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        self.sock = sock
        self.data_fd = -1
        self.ready: asyncio.Future[None] = loop.create_future()
        self._zygote = zygote
        self._identity = identity
        self._loop = loop
        self._pidfd = -1
        self._pid = 0
        self._allowed: set[int] = set()
        self._off = -1
        """The core that it is not to wake up on."""
        self._told: tuple[str, Sequence[ToolSpec]] | None = None
        self._was_told_all = False
        self._is_parked = False
        self._is_frozen = False
        self._is_closed = False
        self._reason = bytearray()
        self._ended: asyncio.Future[int] = loop.create_future()

    def kill(self) -> None:
        """End it now. Harmless when it has ended already."""
        self._signal(signal.SIGKILL)

    def warn(self) -> None:
        """Let it say its last words: the kill comes next."""
        self._signal(signal.SIGTERM)
        self.thaw()

    def freeze(self) -> None:
        """Have it stand still, with all its threads, until `thaw`; no program can refuse that."""
        self._is_frozen = True
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on. Harmless when it does."""
        if self._is_frozen:
            self._is_frozen = False
            self._signal(signal.SIGCONT)

    def weigh(self, tell: Callable[[int], None]) -> None:
        """Tell in a later turn of the loop how much memory it takes; not if it is closed by then."""
        if self._pidfd < 0:
            return
        fd = os.dup(self._pidfd)  # the number may be another's before a thread comes to it

        def measure() -> int:
            try:
                return held_bytes([fd])
            finally:
                os.close(fd)

        def measured(future: asyncio.Future[int]) -> None:
            if not future.cancelled() and future.exception() is None and not self._is_closed:
                tell(future.result())

        self._loop.run_in_executor(None, measure).add_done_callback(measured)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def tell(self, text: str, tools: Sequence[ToolSpec]) -> None:
        """Have it wake up and make ready a program that is about to come. It is for no other from then on."""
        frame = program_frame(text, tools)
        if len(frame) > MOST_TOLD_BYTES:
            return
        self.stay_away()
        self._told = text, tools
        try:
            self._was_told_all = self.sock.send(frame) == len(frame)
        except OSError:
            self._was_told_all = False

    @property
    def was_told(self) -> bool:
        """Whether it has seen a program, and so woke up on another core than ours to make it ready."""
        return self._told is not None

    def is_for(self, text: str, tools: Sequence[ToolSpec]) -> bool:
        """Whether it may be given that program: it knows of no other."""
        if self._told is None:
            return True
        return self._was_told_all and self._told[1] is tools and self._told[0] == text

    def stay_away(self) -> None:
        """Wait for the program on another core than ours. To be repeated: the kernel may have moved us meanwhile."""
        ours = cores.ours()
        if ours != self._off and self.ready.done():
            self._off = ours
            cores.put(self._process_id(), self._cores() - {ours})

    @contextlib.contextmanager
    def elsewhere(self) -> Iterator[None]:
        """What it is sent in this block wakes it on another core than ours."""
        cores.put(self._process_id(), self._cores() - {cores.ours()})
        try:
            yield
        finally:
            self.set_free()

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """What it is sent in this block wakes it on our core, and it runs as soon as we sleep."""
        cores.put(self._process_id(), self._cores() & {cores.ours()})
        try:
            yield
        finally:
            self.set_free()

    def set_free(self) -> None:
        """It may run on every core that it had."""
        cores.put(self._process_id(), self._allowed)

    def _cores(self) -> set[int]:
        if not self._allowed:
            self._allowed = cores.allowed(self._process_id())
        return self._allowed

    def _process_id(self) -> int:
        if self._ended.done():
            return 0  # another process may have its number
        if not self._pid and self._pidfd >= 0:
            self._pid = pid_of(self._pidfd)
        return self._pid

    async def wait(self) -> int:
        """Its exit status, negative for a signal; -9 if the zygote went first and took it along."""
        return await asyncio.shield(self._ended)

    def close(self) -> None:
        """Kill it and free all it held. Harmless when repeated."""
        if self._is_closed:
            return
        self.kill()
        self._is_closed = True
        self._fail(EngineCrashed("the guest was closed before it was ready"))
        self._loop.remove_reader(self.sock.fileno())
        self.sock.close()
        for fd in (self._pidfd, self.data_fd):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self.data_fd = -1
        if self._zygote is not None:
            self._zygote._forget(self._identity)

    def _disown(self) -> list[int]:
        """In a forked child: never to be killed from here. The descriptors to let go of."""
        fds = [self.sock.fileno(), self._pidfd, self.data_fd]
        self._is_closed = True
        self._pidfd = self.data_fd = -1
        return fds

    def _watch(self) -> None:
        self._loop.add_reader(self.sock.fileno(), self._read_first)

    def _read_first(self) -> None:
        """One byte at a time: what follows is for whoever uses the socket next."""
        try:
            text, fds, _, _ = socket.recv_fds(self.sock, 1, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            text, fds = b"", []
        if text == _DATA and len(fds) == 1 and self.data_fd < 0:
            self.data_fd = fds[0]
            return
        for fd in fds:
            os.close(fd)
        if text == _READY and not self._reason and self.data_fd >= 0:
            self._loop.remove_reader(self.sock.fileno())
            self._is_parked = True
            self._settle()
            return
        self._reason += text
        if not text or len(self._reason) > _MAX_REASON_BYTES:
            self._loop.remove_reader(self.sock.fileno())
            reason = bytes(self._reason[1:]).decode(errors="replace")
            self._fail(EngineUnavailable(f"cannot isolate here: {reason}") if reason else EngineCrashed(_DIED))

    def _set_pidfd(self, pidfd: int) -> None:
        self._pidfd = pidfd
        if self._is_closed:  # closed while it was being forked
            self.kill()
            os.close(pidfd)
            self._pidfd = -1
        else:
            self._settle()

    def _settle(self) -> None:
        if self._is_parked and self._pidfd >= 0 and not self.ready.done():
            self.ready.set_result(None)

    def _end(self, status: int) -> None:
        if not self._ended.done():
            self._ended.set_result(status)

    def _fail(self, error: EngineError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # nobody has to ask for it


_DIED: Final = "the guest died while it was being locked down; nothing ran"


class Zygote:
    """One fork server for one tier and one library set."""

    vm_bytes: int
    """Address space that a guest starts with; its memory limit counts above it."""
    notes: tuple[str, ...]
    """What this tier cannot enforce on this machine."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, folder: str) -> None:
        self.pid = process.pid
        self.vm_bytes = 0
        self.notes = ()
        self._process = process
        self._control = control
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._guests: dict[int, Guest] = {}
        """Until their end is known."""
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._is_closed = False
        forks.watch(self)

    @classmethod
    async def start(
        cls,
        *,
        tier: Tier,
        library_set: LibrarySet,
        limits: Limits,
        loop_module: str = "toolfold_guest.loop",
        host_libraries: bool = False,
    ) -> Zygote:
        """Build the jail and load the libraries; `EngineUnavailable` says in one line what is missing."""
        if sys.platform != "linux":
            raise EngineUnavailable(f"cannot isolate here: the process engine needs Linux, this is {sys.platform!r}")
        has_tree = "mount" in tier.layers
        folder = "" if has_tree else tempfile.mkdtemp(prefix="toolfold-")
        if has_tree:
            places = layout.jailed(host_libraries=host_libraries)
        else:
            places = layout.in_place(folder, host_libraries=host_libraries)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        given_up = threading.Event()
        try:
            _send_orders(ours, places, tier, folder, library_set, limits, loop_module)
            launch = asyncio.ensure_future(asyncio.to_thread(_launch, theirs, given_up))
            process = await asyncio.shield(launch)
        except asyncio.CancelledError:
            given_up.set()
            launch.add_done_callback(_reap)  # it ends by itself, now that the control socket is closed
            ours.close()
            raise
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        zygote = cls(process, ours, folder)
        zygote.notes = _notes(tier, host_libraries=host_libraries)
        try:
            async with asyncio.timeout(START_SECONDS):
                await zygote._hear_of_start()
        except TimeoutError:
            await zygote.close()
            raise EngineUnavailable(f"the zygote was not ready after {START_SECONDS:.0f} seconds") from None
        except BaseException:
            await zygote.close()
            raise
        zygote._loop.add_reader(ours.fileno(), zygote._read)
        return zygote

    @property
    def closed(self) -> bool:
        """Whether the fork server is gone."""
        return self._is_closed

    @property
    def guest_pidfds(self) -> list[int]:
        """Of the guests that are alive; another may have one of these numbers as soon as its guest is closed."""
        return [guest._pidfd for guest in self._guests.values() if guest._pidfd >= 0]

    def spawn(self, limits: Limits | None = None) -> Guest:
        """A guest on its way; await its `ready`."""
        return self._spawn(1, limits)[0]

    def spawn_many(self, count: int) -> list[Guest]:
        """Several guests for one control message."""
        guests: list[Guest] = []
        while count > len(guests):
            guests += self._spawn(min(count - len(guests), _GUESTS_PER_MESSAGE), None)
        return guests

    async def close(self) -> None:
        """End the server; every guest that it ever forked is then dead and reaped."""
        self._lose()
        try:
            await asyncio.to_thread(self._process.wait, END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        if self._folder:
            await asyncio.to_thread(remove_tree, self._folder)

    def disown(self) -> None:
        """In a forked child: a control socket left open here would keep the server from ending with the parent."""
        self._is_closed = True
        self._folder = ""
        self._process.returncode = 0  # not our child: nothing to wait for
        sent = itertools.chain.from_iterable(fds for _, fds in self._unsent)
        of_guests = itertools.chain.from_iterable(guest._disown() for guest in self._guests.values())
        forks.blank([self._control.fileno(), *sent, *of_guests])

    async def _hear_of_start(self) -> None:
        while True:
            try:
                text = await self._loop.sock_recv(self._control, MAX_MESSAGE_BYTES)
            except ConnectionResetError:
                continue  # it ended with an order unread; what it said before is still there to be read
            if not text:
                raise EngineUnavailable("cannot isolate here: the zygote ended before it was ready, without a word")
            message: dict[str, Any] = json.loads(text)
            if "failed" in message:
                raise EngineUnavailable(f"cannot isolate here: {message['failed']}")
            self.notes = tuple(dict.fromkeys([*self.notes, *message.get("notes", ())]))
            if "ready" in message:
                self.vm_bytes = message["ready"]
                return

    def _spawn(self, count: int, limits: Limits | None) -> list[Guest]:
        guests: list[Guest] = []
        theirs: list[int] = []
        for _ in range(count):
            host_end, guest_end = socket.socketpair()
            host_end.setblocking(False)
            guests.append(Guest(self, next(self._ids), host_end))
            theirs.append(guest_end.detach())
        if self._is_closed:
            for guest, fd in zip(guests, theirs, strict=True):
                os.close(fd)
                guest._fail(EngineUnavailable("the zygote is gone; start another one"))
                guest._end(_KILLED)
            return guests
        order: dict[str, Any] = {"spawn": [guest._identity for guest in guests]}
        if limits is not None:
            order["limits"] = dataclasses.asdict(limits)
        for guest in guests:
            self._guests[guest._identity] = guest
            guest._watch()
        self._send(order, theirs)
        return guests

    def _forget(self, identity: int) -> None:
        if self._folder and not self._is_closed:
            self._send({"forget": [identity]}, [])

    def _send(self, message: dict[str, Any], fds: list[int]) -> None:
        self._unsent.append((json.dumps(message).encode(), fds))
        if len(self._unsent) == 1:
            self._flush()

    def _flush(self) -> None:
        fd = self._control.fileno()
        while self._unsent:
            text, fds = self._unsent[0]
            try:
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
                self._control.sendmsg([text], ancillary)
            except BlockingIOError:
                self._loop.add_writer(fd, self._flush)
                return
            except OSError:
                self._lose()
                return
            self._unsent.popleft()
            for sent in fds:
                os.close(sent)
        self._loop.remove_writer(fd)

    def _read(self) -> None:
        try:
            text, fds, _, _ = socket.recv_fds(
                self._control, MAX_MESSAGE_BYTES, _GUESTS_PER_MESSAGE, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return
        except OSError:
            text, fds = b"", []
        if not text:
            self._lose()
            return
        message: dict[str, Any] = json.loads(text)
        forked = message.get("forked", ())
        if len(forked) != len(fds):  # this process may open no more files: those guests cannot be held
            for fd in fds:
                os.close(fd)
            self._lose()
            return
        for identity, pidfd in zip(forked, fds, strict=True):
            self._guests[identity]._set_pidfd(pidfd)
        for identity, reason in message.get("refused", ()):
            guest = self._guests.pop(identity)
            guest._fail(EngineUnavailable(f"cannot isolate here: {reason}"))
            guest._end(_KILLED)
        for identity, status in message.get("ended", ()):
            self._guests.pop(identity)._end(status)

    def _lose(self) -> None:
        """The server is gone, or is to go: its guests are dead with it."""
        if self._is_closed:
            return
        self._is_closed = True
        for fd in itertools.chain.from_iterable(fds for _, fds in self._unsent):
            os.close(fd)
        self._unsent.clear()
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._control.fileno())
        self._control.close()
        for guest in self._guests.values():
            guest._fail(EngineCrashed("the zygote is gone and took the guest along"))
            guest._end(_KILLED)
        self._guests.clear()


def _reap(launch: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    """A process that nobody wants any more must not stay as a zombie."""
    if not launch.cancelled() and launch.exception() is None:
        threading.Thread(target=launch.result().wait, daemon=True).start()


def _launch(control: socket.socket, given_up: threading.Event) -> subprocess.Popen[bytes]:
    process = _builder(control)
    if given_up.is_set():  # the loop may be gone before it hears of the process, so nobody else would wait for it
        threading.Thread(target=process.wait, daemon=True).start()
    return process


def _builder(control: socket.socket) -> subprocess.Popen[bytes]:
    # The thread owns the socket: a cancelled start must not free a descriptor that is in use here.
    with control:
        return subprocess.Popen(
            [*layout.builder_arguments(), str(control.fileno())],
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control.fileno(),),
            start_new_session=True,  # a Ctrl-C in the terminal is for the host alone
        )


def _send_orders(
    control: socket.socket,
    places: layout.Layout,
    tier: Tier,
    folder: str,
    library_set: LibrarySet,
    limits: Limits,
    loop_module: str,
) -> None:
    """Two messages that wait in the socket: one for the builder of the jail, one for the zygote."""
    both = {"layers": sorted(tier.layers), "folder": folder, "sys_path": places.sys_path}
    builder = {
        "arguments": places.arguments,
        "environment": places.environment,
        "binds": places.binds,
        "copies": places.copies,
        "hidden": places.hidden,
        "links": places.links,
        "readable": [source for source, _ in places.binds] or [*places.readable_folders, *places.readable_files],
    }
    zygote = {
        "library_set": library_set,
        "loop_module": loop_module,
        "limits": dataclasses.asdict(limits),
        "readable_folders": places.readable_folders,
        "readable_files": places.readable_files,
        "listed_folders": places.listed_folders,
        "most_processes": most_processes(),
    }
    for part in (builder, zygote):
        control.send(json.dumps({**both, **part}).encode())


def _notes(tier: Tier, *, host_libraries: bool) -> tuple[str, ...]:
    notes = ["the program can read every package that is installed on the host"] if host_libraries else []
    if "mount" in tier.layers:
        return tuple(notes)
    notes += ["the size of the data folder and the number of its files are not limited"]
    if "user" not in tier.layers:
        notes.append("the number of threads is limited by memory only")
    if "landlock" in tier.layers:
        notes.append("the program can see which files the host has, but not read them")
    if "seccomp" in tier.layers:
        notes.append("the program cannot change modes and times of files, as shutil.copy does")
    if not tier.layers & {"landlock", "seccomp"}:
        notes.append("the program is not isolated from the host")
    return tuple(notes)
