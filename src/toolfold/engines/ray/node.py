"""Node side of the Ray engine: runs programs on its own engine, reports on them. Knows nothing of Ray.

What is said waits until it is asked for. A program whose words nobody asks for is not read any further.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from toolfold.engines.base import Audible, Called, Died, Ended, Order, Printed, ReplayTape, Timed, Waiting
from toolfold.engines.ray import wire_messages
from toolfold.errors import ToolfoldError
from toolfold.models import Call, Limits, Reply, ReplyMeta

if TYPE_CHECKING:
    import msgspec

    from toolfold.engines.base import Engine, Event, Run
    from toolfold.engines.ray.direct_connection import Frames
    from toolfold.engines.ray.wire_messages import FromNode, ToNode


# ----------------------------------------------------------------------------------------------------
# Records of calls that a node serves itself, each a call with its reply. Pure.
#
# Rules:
# 1. Calls are told in the order in which the program made them, replies in the order in which it was given them.
# 2. A record is for a call that was answered before any later one; other calls are told first, and their replies apart.
# 3. What a tool was given and what it returned is encoded before the tool, or the program, can change it.

_PLAIN: Final = ReplyMeta()


class CallRecords:
    """Call records of one program since they were last taken; `places` has each tool's index in the grant."""

    def __init__(self, places: Mapping[str, int]) -> None:
        self._places = places
        self._wakes: list[int] = []
        self._clocks: list[int | float] = []
        self._is_spoilt = False
        self._answered: list[msgspec.Raw] = []
        self._unanswered: dict[int, wire_messages.CallOut] = {}
        self.size_bytes = 0

    def note_tape(self, event: ReplayTape) -> None:
        """Add a tape. It may precede earlier calls in the same batch, which is heard as a whole."""
        self._wakes += event.wakes
        self._clocks += event.clocks
        self._is_spoilt = self._is_spoilt or event.is_spoilt

    def note_calls(self, calls: Sequence[Call]) -> None:
        for call in calls:
            arguments = wire_messages.raw(call.arguments)
            self._unanswered[call.id] = (call.id, self._places[call.tool], arguments, call.line, call.within)

    def note_reply(self, reply: Reply, place: int, seconds: float) -> wire_messages.WireServed | None:
        """Add the reply that the program got after `place` others; one that fits in no record is returned."""
        meta, size = reply.meta or _PLAIN, reply.size_bytes or 0
        served = (reply.call_id, place, seconds, reply.value, reply.error, size, meta.attempts, meta.breaker)
        if next(iter(self._unanswered), 0) != reply.call_id:
            return wire_messages.WireServed(*served, reply.traceback)
        _, *call = self._unanswered.pop(reply.call_id)
        record = wire_messages.raw((*served, *call, reply.traceback))
        self._answered.append(record)
        self.size_bytes += len(memoryview(record))
        return None

    def take(self) -> Iterator[bytes]:
        """Take everything, as parts to be said in this order."""
        if self._answered or self._wakes or self._clocks or self._is_spoilt:
            yield wire_messages.answered_part(self._wakes, self._clocks, self._is_spoilt, self._answered)
            self._wakes, self._clocks, self._is_spoilt = [], [], False
            self._answered, self.size_bytes = [], 0
        if self._unanswered:
            yield wire_messages.called_part(list(self._unanswered.values()))
            self._unanswered = {}


HEARTBEAT_SECONDS: Final = 1.0
NO_RUN: Final = 0
# Tuples: a union in `isinstance` is made anew each time, and there are two events for each call.
_LAST: Final = (Ended, Died)
_OF_CALLS: Final = (Called, ReplayTape)


@dataclass(slots=True)
class _Running:
    order: Order
    places: dict[str, int]
    run: Run | None = None
    own: NodeCalls | None = None
    records: CallRecords | None = None
    own_names: frozenset[str] = frozenset()
    settled: frozenset[int] = frozenset()
    """Calls of own tools that were served on another node."""
    replies: int = 0
    early: list[Callable[[Run], None]] = field(default_factory=list)
    """Commands that came before the run was open."""
    task: asyncio.Task[None] | None = None


class NodeCalls(Protocol):
    """Calls of one program to tools of the node."""

    def send(self, call: Call) -> None: ...
    def close(self) -> None:
        """Drop what is in flight."""


class NodeTools(Protocol):
    """Tools that the node calls itself."""

    def open(self, limits: Limits, done: Callable[[Call, Reply, float], None]) -> NodeCalls:
        """Calls of one program; `done` is called with each reply and the seconds that it took."""


class Node:
    """Programs on one engine, which is entered already; calls of `own` tools need not go to the runtime."""

    def __init__(self, engine: Engine, own: NodeTools | None = None) -> None:
        self._engine = engine
        self._own = own
        self._grants: dict[int, tuple[wire_messages.Grant, dict[str, int]]] = {}
        self._runs: dict[int, _Running] = {}
        self._sessions: set[str] = set()
        self._outbox = NodeOutbox(self._speak_soon)
        self._speaker: Frames | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def messages(self) -> int:
        return self._outbox.messages

    # from the runtime

    def receive(self, body: bytes) -> None:
        for message in wire_messages.unpack(body):
            self._handle(message)

    def _handle(self, message: ToNode) -> None:
        match message:
            case wire_messages.Open():
                self._open(message)
            case wire_messages.RunReply():
                if (running := self._runs.get(message.run)) is not None:
                    self._do(message.run, lambda run: _give(run, running, message.reply))
            case wire_messages.Stop():
                self._do(message.run, lambda run: run.stop(message.status, message.problem))
            case wire_messages.RunCommand():
                self._act(message)
            case wire_messages.Grant():
                places = {spec.name: place for place, spec in enumerate(message.tools)}
                self._grants[message.number] = message, places
            case wire_messages.Forget():
                self._grants.pop(message.number, None)
            case wire_messages.EndSession():
                self._sessions.discard(message.session)
                self._engine.end_session(message.session)
            case wire_messages.Preload():
                if self._engine.capabilities.stocked is not None:
                    self._spawn(self._engine.capabilities.stocked.preload(message.library_set))

    def _act(self, message: wire_messages.RunCommand) -> None:
        match message.verb:
            case "hold":
                self._do(message.run, lambda run: run.hold())
            case "release":
                self._do(message.run, lambda run: _release(run, message.seconds))
            case "output":
                self._do(message.run, lambda run: run.ask_for_output() if isinstance(run, Audible) else None)
            case "close":
                running = self._runs.pop(message.run, None)
                if running is not None and running.task is not None:
                    running.task.cancel()

    def _do(self, key: int, act: Callable[[Run], None]) -> None:
        running = self._runs.get(key)
        if running is None:
            return
        if running.run is None:
            running.early.append(act)
        else:
            act(running.run)

    # programs

    def _open(self, message: wire_messages.Open) -> None:
        grant, places = self._grants[message.grant]
        key = message.run
        order = Order(
            program=message.program,
            tools=grant.tools,
            limits=message.limits,
            files=message.files,
            session=message.session,
            seed=message.seed,
            tape=None if message.wakes is None else ReplayTape(message.wakes, message.clocks),
            report_waiting=message.report_waiting,
            on_frozen=(lambda size_bytes: self._outbox.say(key, wire_messages.WireFrozen(size_bytes)))
            if message.report_waiting
            else None,
        )
        running = self._runs[key] = _Running(order, places)
        if message.may_serve and grant.own and self._own is not None:
            running.own = self._own.open(message.limits, lambda *done: self._served(key, running, *done))
            running.own_names, running.settled = grant.own, frozenset(message.settled)
            running.records = CallRecords(places)
        running.task = self._spawn(self._serve(key, running))

    def _spawn(self, work: Coroutine[object, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _serve(self, key: int, running: _Running) -> None:
        last: Event = Died("the guest ended without a last event")
        try:
            async with self._engine.open(running.order) as run:
                running.run = run
                for act in running.early:
                    act(run)
                running.early.clear()
                async for event in run:
                    if isinstance(event, _LAST):
                        last = event
                        break
                    if running.records is not None and isinstance(event, _OF_CALLS):
                        self._note(key, running, running.records, event)
                    else:
                        # A tape and what is printed come with every frame of calls, and nobody acts on them.
                        is_urgent = not isinstance(event, ReplayTape | Printed)
                        self._outbox.say(key, self._to_message(event, running), is_urgent=is_urgent)
                    if not self._outbox.has_room.is_set():
                        await self._outbox.has_room.wait()
                # The next program of a session comes as soon as this one has ended, and must find its guest back.
                if not running.order.session:
                    self._outbox.say(key, self._to_message(last, running))
            if running.order.session:
                self._outbox.say(key, self._to_message(last, running))
                self._look_for_sessions(running.order.session)
        # Whatever broke: its program must not be waited for.
        except Exception as error:  # noqa: BLE001
            text = str(error) if isinstance(error, ToolfoldError) else f"{type(error).__name__}: {error}"
            self._outbox.say(key, wire_messages.WireDied(text, is_unbegun=running.run is None))
        finally:
            self._runs.pop(key, None)
            if running.own is not None:
                running.own.close()

    def _note(self, key: int, running: _Running, records: CallRecords, event: Called | ReplayTape) -> None:
        """Report all calls, and serve those of own tools here."""
        if isinstance(event, ReplayTape):
            records.note_tape(event)
            self._outbox.hold(key, records)
            return
        assert running.own is not None
        names, settled = running.own_names, running.settled
        own = [call for call in event.calls if call.tool in names and call.id not in settled]
        if len(own) == len(event.calls):
            records.note_calls(own)
            self._outbox.hold(key, records)
        else:
            for_runtime = any(call.tool not in names for call in event.calls)
            self._outbox.say(key, self._to_message(event, running), is_urgent=for_runtime)
        for call in own:
            running.own.send(call)

    def _served(self, key: int, running: _Running, call: Call, reply: Reply, seconds: float) -> None:
        if running.run is None or running.records is None:
            return
        place = running.replies
        _give(running.run, running, reply)  # first: the guest goes on while the rest is done
        message = running.records.note_reply(reply, place, seconds)
        if message is None:
            self._outbox.hold(key, running.records)
        else:
            self._outbox.say(key, message, is_urgent=False)

    def _to_message(self, event: Event, running: _Running) -> FromNode:
        match event:
            case Printed():
                return wire_messages.WirePrinted(event.text, event.stream, event.cut_bytes, event.is_report)
            case Called():
                places = running.places
                return wire_messages.WireCalled(
                    [(call.id, places[call.tool], dict(call.arguments), call.line, call.within) for call in event.calls]
                )
            case Waiting():
                return wire_messages.WireWaiting(event.replies_seen)
            case ReplayTape():
                return wire_messages.WireTaped(event.wakes, event.clocks, event.is_spoilt)
            case Ended():
                session = running.order.session
                keeps = bool(session) and self._engine.has_session(session)
                return wire_messages.WireEnded(
                    event.status, event.value, event.problem, event.files, event.deleted, event.notes,
                    keeps, event.unmade_calls,
                )  # fmt: skip
            case Died():
                return wire_messages.WireDied(event.detail, is_unbegun=False)
            case _:
                raise AssertionError("only a node serves calls itself")

    def _look_for_sessions(self, latest: str) -> None:
        """Report the guests that the latest one has pushed out."""
        self._sessions.add(latest)
        for session in [name for name in self._sessions if not self._engine.has_session(name)]:
            self._sessions.discard(session)
            if session != latest:
                self._outbox.say(NO_RUN, wire_messages.WireGone(session))

    # to the runtime

    def _speak_soon(self) -> None:
        if self._speaker is not None:
            # In the next turn: more may be said in this one.
            asyncio.get_running_loop().call_soon(self.speak)

    def speak_to(self, speaker: Frames | None) -> None:
        """Send messages there from now on, instead of waiting for `listen`."""
        self._speaker = speaker
        if speaker is not None:
            self._spawn(self._beat())
            self.speak()

    def speak(self) -> None:
        """Send what is due, as far as there is room."""
        while self._speaker is not None and self._outbox.is_due.is_set() and not self._speaker.is_full:
            self._speaker.write(self._outbox.next_message())

    async def _beat(self) -> None:
        """Rule 2 of the link: a node that says nothing is lost."""
        while self._speaker is not None:
            message_count = self.messages
            await asyncio.sleep(HEARTBEAT_SECONDS)
            if message_count == self.messages:
                await self._report_load()

    async def listen(self) -> bytes:
        """Wait for a message; a report of the node's load, if that takes a while."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self._outbox.is_due.wait()
        except TimeoutError:
            await self._report_load()
        return self._outbox.next_message()

    async def _report_load(self) -> None:
        stocked = self._engine.capabilities.stocked
        count, memory_bytes = 0, 0
        if stocked is not None:
            guests = await stocked.guests()
            count, memory_bytes = guests.count, guests.memory_bytes
        self._outbox.say(NO_RUN, wire_messages.WireRoom(count, memory_bytes, _free_bytes()))


def _free_bytes() -> int:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _give(run: Run, running: _Running, reply: Reply) -> None:
    running.replies += 1
    run.answer(reply)


def _release(run: Run, seconds: float) -> None:
    if seconds and isinstance(run, Timed):
        run.release_after(seconds)
    else:
        run.release()


# ----------------------------------------------------------------------------------------------------
# Outbox of a node. Knows neither programs nor how messages travel.
#
# Rules:
# 1. What is said of one run leaves in the order in which it was said.
# 2. What nobody acts on may wait a little, to leave with more: each message wakes the runtime.
# 3. Beyond some bytes there is no room: whoever says more should wait.

MOST_WAITING_BYTES: Final = 16 * 1024 * 1024
"""Of messages that are not sent yet: programs stand still beyond that."""
MOST_AT_ONCE_BYTES: Final = 4 * 1024 * 1024
MOST_NOTED_BYTES: Final = 64 * 1024
"""Of the records of one run: beyond that they count as said."""
LATER_SECONDS: Final = 0.01
"""How long printed text, tapes, and calls that the node serves itself may be held back: nobody acts on them."""


class NodeOutbox:
    """Messages not sent yet; `on_due` is called once when something must not wait, until all of it was taken."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._parts: deque[tuple[int, bytes]] = deque()
        self.waiting_bytes = 0
        self._pending_records: dict[int, CallRecords] = {}
        """Records by run; they go after all messages of it so far, and before the next."""
        self.messages = 0
        self.is_due = asyncio.Event()
        self.has_room = asyncio.Event()
        self.has_room.set()

    def say(self, key: int, message: FromNode, *, is_urgent: bool = True) -> None:
        if key in self._pending_records:
            self._flush_records(key)
        if not is_urgent:
            self._be_due_later()
        self._add(key, wire_messages.part(message))
        if is_urgent:
            self._be_due()

    def hold(self, key: int, records: CallRecords) -> None:
        """Send these records of a run later; nobody acts on them."""
        if key not in self._pending_records:
            self._be_due_later()
            self._pending_records[key] = records
        if records.size_bytes > MOST_NOTED_BYTES:
            self._flush_records(key)

    def _flush_records(self, key: int) -> None:
        for body in self._pending_records.pop(key).take():
            self._add(key, body)

    def _add(self, key: int, body: bytes) -> None:
        self._parts.append((key, body))
        self.waiting_bytes += len(body)
        if self.waiting_bytes > MOST_WAITING_BYTES:
            self.has_room.clear()

    def _be_due_later(self) -> None:
        """Called before something is added: the first takes the others along."""
        if not self._parts and not self._pending_records:
            asyncio.get_running_loop().call_later(LATER_SECONDS, self._be_due)

    def _be_due(self) -> None:
        if (self._parts or self._pending_records) and not self.is_due.is_set():
            self.is_due.set()
            self._on_due()

    def next_message(self) -> bytes:
        """Take all parts, or as many as fit in one message."""
        for key in tuple(self._pending_records):
            self._flush_records(key)
        parts: dict[int, list[bytes]] = {}
        size = 0
        while self._parts and size < MOST_AT_ONCE_BYTES:
            key, body = self._parts.popleft()
            parts.setdefault(key, []).append(body)
            size += len(body)
        if not self._parts:
            self.is_due.clear()
        self.waiting_bytes -= size
        if self.waiting_bytes <= MOST_WAITING_BYTES:
            self.has_room.set()
        self.messages += 1
        return wire_messages.join([(key, wire_messages.merged(bodies)) for key, bodies in parts.items()])
