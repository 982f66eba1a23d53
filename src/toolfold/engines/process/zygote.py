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
import socket
import subprocess
import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from toolfold import fork_safety
from toolfold.engines.process.guest import Guest, HoldRegistry, Usage, oom_kills
from toolfold.engines.process.zygote_launch import Launched, LaunchPlan, open_control, start_builder
from toolfold.errors import EngineCrashed, EngineUnavailable
from toolfold.models import Limits
from toolfold_guest.shared.folder_removal import remove_tree

if TYPE_CHECKING:
    from toolfold.engines.process.cgroup import CgroupMaker

MAX_MESSAGE_BYTES: Final = 1 << 20
START_SECONDS: Final = 60.0
END_SECONDS: Final = 5.0
# A message carries at most 253 descriptors.
_GUESTS_PER_MESSAGE: Final = 64
_KILLED: Final = -9


class Zygote:
    """Fork server for one tier and one library set."""

    notes: tuple[str, ...]
    """What this tier cannot enforce on this machine."""

    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket, folder: str, limits: Limits,
        cgroups: CgroupMaker | None,
    ) -> None:  # fmt: skip
        self.pid = process.pid
        self._limits = limits
        self.cgroups = cgroups
        """For guests that start processes."""
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
        self.closed = False
        """Whether the fork server is gone."""
        self._oom_kills = oom_kills()
        """When it was last looked at."""
        fork_safety.watch(self)

    @classmethod
    async def start(cls, plan: LaunchPlan) -> Zygote:
        """Build the jail and load the libraries; `EngineUnavailable` says in one line what is missing."""
        if plan.profile == "python":
            return await cls.hear_of(await launch(plan), plan)
        # Imported here for the same reason as in `open_control`. Made first: it may have to move this process.
        from toolfold.engines.process.cgroup import CgroupMaker  # noqa: PLC0415

        cgroups = await asyncio.to_thread(CgroupMaker)
        return await cls.hear_of(await launch(plan), plan, cgroups)

    @classmethod
    async def hear_of(cls, launched: Launched, plan: LaunchPlan, cgroups: CgroupMaker | None = None) -> Zygote:
        """One that was launched by this plan, when it is ready; raises as `start`."""
        zygote = cls(launched.process, launched.control, launched.folder, plan.limits, cgroups)
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
    def guest_pidfds(self) -> list[int]:
        """Pidfds of the guests that are alive; a number may be reused as soon as its guest is closed."""
        return [guest.pidfd for guest in self._guests.values() if guest.pidfd >= 0]

    def has_new_oom_kill(self) -> bool:
        """Whether the kernel has killed a process of this machine for memory since this was last asked."""
        before, self._oom_kills = self._oom_kills, oom_kills()
        return self._oom_kills != before

    def spawn(self, limits: Limits | None = None) -> Guest:
        return self._spawn(1, limits)[0]

    def spawn_many(self, count: int) -> list[Guest]:
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
        if self.cgroups is not None:
            await asyncio.to_thread(self.cgroups.close)

    def disown(self) -> None:
        """In a forked child: a control socket left open here would keep the server from ending with the parent."""
        self.closed = True
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
        cgroups = self.cgroups
        move = None if cgroups is None else functools.partial(cgroups.move, limits=limits or self._limits)
        for identity in itertools.islice(self._ids, count):
            # A stream: frames may be larger than a packet. The guest's end is sent along with the order to fork.
            host_end, guest_end = socket.socketpair()
            host_end.setblocking(False)
            guests[identity] = Guest(host_end, functools.partial(self._forget, identity), move)
            theirs.append(guest_end.detach())
        if self.closed:
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
        if self._folder and not self.closed:
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
        if self.closed:
            return
        # Sockets of guests that were never forked: nobody else would close them.
        self.closed = True
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
    ours, theirs, folder = open_control(plan)
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


# ----------------------------------------------------------------------------------------------------
# Pool of guests that are forked before they are needed.
#
# Rules:
# 1. A guest is taken once, then it is closed; nothing is ever used twice.
# 2. The pool is topped up after a program is over, two at a time, and not while a program waits
# for its guest, so that forking ahead does not compete with what is wanted now.
# 3. Only guests with the engine's own limits wait here; other limits get a guest of their own.

TOP_UP_AFTER_SECONDS: Final = 0.002
AT_A_TIME: Final = 2
BUFFER_BYTES: Final = 256 * 1024


class Pool:
    """Parked guests of one zygote."""

    def __init__(self, zygote: Zygote, limits: Limits, warm: int, *, refills: bool = True) -> None:
        self.zygote = zygote
        self._limits = limits
        self._usual = _of_process(limits)
        self._warm = warm
        self._loop = asyncio.get_running_loop()
        self._parked: deque[Guest] = deque()
        self._active_guests: set[Guest] = set()
        self._idle: set[Guest] = set()
        """Those among them that a session keeps, between two of its programs."""
        self.buffer = memoryview(bytearray(BUFFER_BYTES))
        """What is read goes here first. One program of the pool reads at a time; those of other pools may be in the
        middle of it: a tool may run a program of another runtime, and another thread may have a loop of its own."""
        self.holds = HoldRegistry()
        self._waiting = 0
        """Programs whose guest is still on its way."""
        self._top_up_timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._top_up()
        if not refills:
            self._warm = 0

    def take(self, limits: Limits) -> Guest:
        """A guest for one program. It may still be on its way: see `until_ready`."""
        if self._is_closed:
            raise EngineUnavailable("the engine is closed")
        # Limits are set at the fork and can only be lowered: a parked guest has those of the engine for good.
        guest = (self._next_parked() or self.zygote.spawn()) if self.is_usual(limits) else self.zygote.spawn(limits)
        self._active_guests.add(guest)
        return guest

    def _next_parked(self) -> Guest | None:
        while self._parked:
            guest = self._parked.popleft()
            if not guest.has_ended:
                return guest
            self.give_back(guest)  # something outside killed it while it waited
        return None

    @property
    def is_quiet(self) -> bool:
        """Whether guests wait and there is nothing else to do."""
        is_idle = not self._active_guests and self._top_up_timer is None
        return is_idle and bool(self._parked) and self._parked[-1].ready.done()

    def is_usual(self, limits: Limits) -> bool:
        """Whether a parked guest will do for a program with these limits."""
        return limits is self._limits or _of_process(limits) == self._usual

    @property
    def is_shared(self) -> bool:
        """Whether more than one guest has a program, if only a paused one: none of them is favoured then."""
        return len(self._active_guests) - len(self._idle) > 1

    def rest(self, guest: Guest) -> None:
        """It is taken, and waits for the next program of its session: until then nobody reads what it sends."""
        self._idle.add(guest)

    def rouse(self, guest: Guest) -> None:
        self._idle.discard(guest)

    async def until_ready(self, guest: Guest) -> None:
        """Returns when a guest that was taken is locked down; one that cannot be is given back."""
        self._waiting += 1
        try:
            # Shielded: whoever gives up waiting must not cancel what others may still look at.
            if not guest.ready.done():
                await asyncio.shield(guest.ready)
            guest.ready.result()
        except BaseException:
            self.give_back(guest)
            raise
        finally:
            self._waiting -= 1

    def give_back(self, guest: Guest) -> None:
        """The program is over: end its guest and see that another one waits."""
        # The outcome waits neither for the kill nor for the closing.
        self._loop.call_soon(self._retire, guest)

    def _retire(self, guest: Guest) -> None:
        # Closed before the next is forked: the kernel counts both against the same limits.
        self._active_guests.discard(guest)
        self._idle.discard(guest)
        guest.close()
        if self._warm and self._top_up_timer is None and not self._is_closed:
            self._top_up_timer = self._loop.call_later(TOP_UP_AFTER_SECONDS, self._top_up)

    async def close(self) -> None:
        for guest in self._active_guests:
            guest.close()
        self._active_guests.clear()
        self._idle.clear()
        await self.close_idle()

    async def close_idle(self) -> None:
        """End the zygote and what is parked. Programs that have a guest of it see for themselves how that ended."""
        self._is_closed = True
        if self._top_up_timer is not None:
            self._top_up_timer.cancel()
        for guest in self._parked:
            guest.close()
        self._parked.clear()
        await self.zygote.close()

    def _top_up(self) -> None:
        self._top_up_timer = None
        missing = min(AT_A_TIME, self._warm - len(self._parked))
        if missing <= 0 or self._is_closed or self.zygote.closed:
            return
        # Rule 2. The timer comes back for those that are not forked now.
        if not self._waiting:
            guests = self.zygote.spawn_many(missing)
            self._parked.extend(guests)
            guests[-1].ready.add_done_callback(self._settle)
        if len(self._parked) < self._warm:
            self._top_up_timer = self._loop.call_later(TOP_UP_AFTER_SECONDS, self._top_up)

    def _settle(self, _: asyncio.Future[None]) -> None:
        """The guests wait. With all quiet, the next program shall find them on another core than the host's."""
        if not self._active_guests:
            for guest in self._parked:
                guest.place.stay_away()


def _of_process(limits: Limits) -> Limits:
    """The limits that are set when a guest is forked; the others belong to the conversation."""
    plain = Limits()
    return replace(
        limits, wall_seconds=plain.wall_seconds, output_bytes=plain.output_bytes, value_bytes=plain.value_bytes,
        sent_bytes=plain.sent_bytes, reply_bytes=plain.reply_bytes, calls=plain.calls,
        calls_in_flight=plain.calls_in_flight, program_bytes=plain.program_bytes,
    )  # fmt: skip
