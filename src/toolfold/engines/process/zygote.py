"""Fork server handle on the host, and its launch without blocking the event loop.

Rules:
1. `Zygote.start` either has every layer of its tier or raises; nothing runs in between.
2. The host trusts the zygote: no program ever runs there, so its messages are plain JSON.
3. Whoever dies first, nothing stays: the zygote ends with the control socket, its guests with it.
"""

from __future__ import annotations

import array
import asyncio
import dataclasses
import functools
import itertools
import json
import os
import signal
import socket
import subprocess
import threading
from collections import deque
from typing import Any, Final

from toolfold import fork_safety
from toolfold.engines.process.guest import Guest, Usage, oom_kills
from toolfold.engines.process.launch import Launched, LaunchPlan, Tier, prepared, start_builder
from toolfold.errors import EngineCrashed, EngineUnavailable
from toolfold.models import InstalledSet, LibrarySet, Limits
from toolfold_guest.shared.folders import remove_tree

MAX_MESSAGE_BYTES: Final = 1 << 20
START_SECONDS: Final = 60.0
END_SECONDS: Final = 5.0
# A message carries at most 253 descriptors.
_GUESTS_PER_MESSAGE: Final = 64
_KILLED: Final = -int(signal.SIGKILL)


class Zygote:
    """Fork server for one tier and one library set."""

    notes: tuple[str, ...]
    """What this tier cannot enforce on this machine."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, folder: str) -> None:
        self.pid = process.pid
        self.notes = ()
        self._process = process
        self._control = control
        self._folder = folder
        self.has_tree = not folder
        """Its guests have files of their own, in memory."""
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._guests: dict[int, Guest] = {}
        """Until their end is known."""
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        self._is_closed = False
        self._oom_kills = oom_kills()
        """When it was last looked at."""
        fork_safety.watch(self)

    @classmethod
    async def start(
        cls,
        *,
        tier: Tier,
        library_set: LibrarySet,
        limits: Limits,
        loop_module: str = "toolfold_guest.main",
        host_libraries: bool = False,
        sets: tuple[InstalledSet, ...] = (),
    ) -> Zygote:
        """Build the jail and load the libraries; `EngineUnavailable` says in one line what is missing."""
        plan = LaunchPlan(
            tier=tier,
            library_set=library_set,
            limits=limits,
            loop_module=loop_module,
            host_libraries=host_libraries,
            sets=sets,
        )
        return await cls.hear_of(await launch(plan), plan)

    @classmethod
    async def hear_of(cls, launched: Launched, plan: LaunchPlan) -> Zygote:
        """One that was launched by this plan, when it is ready; raises as `start`."""
        zygote = cls(launched.process, launched.control, launched.folder)
        zygote.notes = notes_of(plan)
        try:
            async with asyncio.timeout(START_SECONDS):
                await zygote._hear_of_start()
        except TimeoutError:
            await zygote.close()
            raise EngineUnavailable(f"the fork server was not ready after {START_SECONDS:.0f} seconds") from None
        except BaseException:
            await zygote.close()
            raise
        zygote._loop.add_reader(zygote._control.fileno(), zygote._read)
        return zygote

    @property
    def closed(self) -> bool:
        """Whether the fork server is gone."""
        return self._is_closed

    @property
    def guest_pidfds(self) -> list[int]:
        """Pidfds of the guests that are alive; a number may be reused as soon as its guest is closed."""
        return [guest.pidfd for guest in self._guests.values() if guest.pidfd >= 0]

    def has_new_oom_kill(self) -> bool:
        """Whether the kernel has killed a process of this machine for memory since this was last asked."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        return self._oom_kills != before

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
        # The end of the control socket is the order to end: nothing else has to arrive.
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
        # Not our child: nothing to wait for.
        self._process.returncode = 0
        unsent_fds = itertools.chain.from_iterable(fds for _, fds in self._unsent)
        of_guests = itertools.chain.from_iterable(guest.disown() for guest in self._guests.values())
        fork_safety.blank([self._control.fileno(), *unsent_fds, *of_guests])

    async def _hear_of_start(self) -> None:
        while True:
            try:
                text = await self._loop.sock_recv(self._control, MAX_MESSAGE_BYTES)
            except ConnectionResetError:
                # It ended with an order unread; what it said before is still there to be read.
                continue
            if not text:
                raise EngineUnavailable(
                    "cannot isolate here: the fork server ended before it was ready, without a message"
                )
            message: dict[str, Any] = json.loads(text)
            if "failed" in message:
                raise EngineUnavailable(f"cannot isolate here: {message['failed']}")
            self.notes = tuple(dict.fromkeys([*self.notes, *message.get("notes", ())]))
            if "ready" in message:
                return

    def _spawn(self, count: int, limits: Limits | None) -> list[Guest]:
        guests: dict[int, Guest] = {}
        theirs: list[int] = []
        for identity in itertools.islice(self._ids, count):
            # A stream: frames may be larger than a packet. The guest's end is sent along with the order to fork.
            host_end, guest_end = socket.socketpair()
            host_end.setblocking(False)
            guests[identity] = Guest(host_end, functools.partial(self._forget, identity))
            theirs.append(guest_end.detach())
        if self._is_closed:
            for guest, fd in zip(guests.values(), theirs, strict=True):
                os.close(fd)
                guest.fail(EngineUnavailable("the fork server is gone; start another one"))
                guest.end(_KILLED)
            return list(guests.values())
        order: dict[str, Any] = {"spawn": list(guests)}
        if limits is not None:
            order["limits"] = dataclasses.asdict(limits)
        self._guests |= guests
        self._send(order, theirs)
        return list(guests.values())

    def _forget(self, identity: int) -> None:
        """Without a tree of its own a guest has a folder that only the zygote may remove."""
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
                # A guest gets its socket as a descriptor in the message; the kernel dups it on the way.
                ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
                self._control.sendmsg([text], ancillary)
            except BlockingIOError:
                self._loop.add_writer(fd, self._flush)
                return
            except OSError:
                self._lose()
                return
            self._unsent.popleft()
            for guest_fd in fds:
                os.close(guest_fd)
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
        # This process may open no more files: those guests cannot be held.
        if len(forked) != len(fds):
            for fd in fds:
                os.close(fd)
            self._lose()
            return
        # In the order of the message: forked first, so that an end in the same message finds its guest.
        for identity, pidfd in zip(forked, fds, strict=True):
            self._guests[identity].forked(pidfd)
        for identity, reason in message.get("refused", ()):
            guest = self._guests.pop(identity)
            guest.fail(EngineUnavailable(f"cannot isolate here: {reason}"))
            guest.end(_KILLED)
        for identity, status, *used in message.get("ended", ()):
            self._guests.pop(identity).end(status, Usage(*used))

    def _lose(self) -> None:
        """The server is gone, or is to go: its guests are dead with it."""
        if self._is_closed:
            return
        # Sockets of guests that were never forked: nobody else would close them.
        self._is_closed = True
        for fd in itertools.chain.from_iterable(fds for _, fds in self._unsent):
            os.close(fd)
        self._unsent.clear()
        self._loop.remove_reader(self._control.fileno())
        self._loop.remove_writer(self._control.fileno())
        self._control.close()
        for guest in self._guests.values():
            guest.fail(EngineCrashed("the fork server is gone, and the sandbox with it"))
            guest.end(_KILLED)
        self._guests.clear()


# ----------------------------------------------------------------------------------------------------
# Starts a fork server without keeping the event loop waiting, and says what its tier cannot enforce.


async def launch(plan: LaunchPlan) -> Launched:
    """Without keeping the loop waiting.

    Raises:
        EngineUnavailable: This is not Linux.
    """
    ours, theirs, folder = prepared(plan)
    given_up = threading.Event()
    try:
        launching = asyncio.ensure_future(asyncio.to_thread(_launch, theirs, given_up))
        process = await asyncio.shield(launching)
    except asyncio.CancelledError:
        given_up.set()
        # It ends by itself, now that the control socket is closed.
        launching.add_done_callback(_reap)
        ours.close()
        raise
    except BaseException:
        ours.close()
        raise
    ours.setblocking(False)
    return Launched(process, ours, folder)


def _reap(launch: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    """A process that nobody wants any more must not stay as a zombie."""
    if not launch.cancelled() and launch.exception() is None:
        threading.Thread(target=launch.result().wait, daemon=True).start()


def _launch(control: socket.socket, given_up: threading.Event) -> subprocess.Popen[bytes]:
    process = start_builder(control)
    # The loop may be gone before it hears of the process, so nobody else would wait for it.
    if given_up.is_set():
        threading.Thread(target=process.wait, daemon=True).start()
    return process


def notes_of(plan: LaunchPlan) -> tuple[str, ...]:
    """Limits that this tier cannot enforce on any machine."""
    tier = plan.tier
    notes = ["the program can read every package that is installed on the host"] if plan.host_libraries else []
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
