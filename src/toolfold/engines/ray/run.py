"""Run of one program on a node, seen from the runtime; it moves to another node when its own is lost.

Rules:
1. Not a part of a message is trusted: what no guest could have said means that the node is broken.
2. The replies are here, so that no call is made twice: a replay gets those that the program had, and calls that are
   still being served get theirs on the node where the program is by then.
3. A lost node is never the program's fault. A program that cannot be replayed ends in `Died`, which says why.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal

from msgspec import structs

from toolfold.engines.base import Called, Died, Ended, Event, Order, Printed, ReplayTape, Served, ServedCall, Waiting
from toolfold.engines.guest_frames import checked_names
from toolfold.engines.ray import wire_messages
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import Call, Limits, Problem, Reply, ReplyMeta, ToolSpec
from toolfold.protocol.codec import Violation, encode

if TYPE_CHECKING:
    from toolfold.engines.ray.engine import Fleet
    from toolfold.engines.ray.node_link import NodeLink
    from toolfold.engines.ray.wire_messages import FromNode, WireAnswered, WireRecord, WireServed


STOP_SECONDS: Final = 5.0
"""How long a node has to end a program that is stopped, before it is ended without it."""
_SLACK_BYTES: Final = 64 * 1024 * 1024
"""Output, tapes and frames of a program beyond its limits."""
_LAST: Final = (Ended, Died)
_HEARD_TO_THE_END: Final = (Printed, Served, Ended)
"""Events of a program that count while it is being stopped."""
_TRIES: Final = 10
"""On how many nodes a program may begin."""


class RayRun:
    """A `Run` that survives its node."""

    def __init__(self, order: Order, fleet: Fleet) -> None:
        # Before anything is sent: names that leave the data folder are the caller's mistake, not the node's.
        checked_names(order.files)
        self._order = order
        self._fleet = fleet
        self._seed = order.seed if order.seed is not None else secrets.randbits(63)
        self._past = RunHistory(order.tape or ReplayTape())
        self._link: NodeLink | None = None
        self._key = 0
        self._left_bytes = 0
        self._tries_left = _TRIES
        self._events: deque[Event] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._stopping: Ended | None = None
        self._state: Literal["running", "held", "over"] = "running"
        self._moving: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._own = NodeServedCalls(self._past, order.limits)

    async def __aenter__(self) -> RayRun:
        self._start(await self._fleet.room(self._order.session))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Left while someone may still wait for the next event.
        if self._state != "over":
            self._push(Ended(status="cancelled"))

    # events

    def __aiter__(self) -> RayRun:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._state == "over":
                raise StopAsyncIteration
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake
        return self._events.popleft()

    def nudge(self, event: Waiting) -> None:
        if self._state != "over":
            self._push(event)

    def _push(self, event: Event) -> None:
        self._events.append(event)
        if isinstance(event, _LAST):
            self._leave()
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    # where it runs

    def _start(self, link: NodeLink) -> None:
        order, past = self._order, self._past
        self._link, self._key = link, self._fleet.next_run(link)
        limits = order.limits
        self._left_bytes = limits.sent_bytes + limits.data_bytes + _SLACK_BYTES
        link.runs[self._key] = self
        # Names in a guest cannot be restored, so a session has no use for a tape.
        tape = past.tape if order.tape is not None or not order.session else None
        granted = link.grant(order.tools)
        self._own.names = granted.own if order.may_serve else frozenset()
        link.send(
            wire_messages.Open(
                run=self._key, grant=granted.number, program=order.program, limits=limits, files=tuple(order.files),
                session=order.session, seed=self._seed, wakes=None if tape is None else tape.wakes,
                clocks=() if tape is None else tape.clocks, report_waiting=order.report_waiting,
                may_serve=order.may_serve, settled=tuple(past.settled),
            )
        )  # fmt: skip
        for reply in past.replies:
            link.send(wire_messages.RunReply(self._key, reply))

    def _leave(self) -> None:
        """End the run, and what the node still has of it."""
        link, self._link = self._link, None
        if link is not None:
            link.runs.pop(self._key, None)
            link.send(wire_messages.RunCommand(self._key, "close"))
        self._state = "over"
        if self._timer is not None:
            self._timer.cancel()
        if self._moving is not None:
            self._moving.cancel()

    def lose_node(self, why: str) -> None:
        node = self._link.facts.address if self._link is not None else "a node"
        self._past.lost_node = node
        self._link = None
        if self._state == "over":
            return
        if self._stopping is not None:
            self._push(self._stopping)
        elif self._order.session:
            self._push(Died(f"node {node} is lost ({why}), and the names of the session with it"))
        elif self._past.why_not:
            text = f"node {node} is lost ({why}), and the program cannot be replayed: {self._past.why_not}"
            self._push(Died(text))
        elif self._state == "running":
            self._move()
        # A held one moves when it is released: its timers stand still until then.

    def _move(self) -> None:
        self._moving = asyncio.create_task(self._go_elsewhere())

    async def _go_elsewhere(self) -> None:
        self._tries_left -= 1
        try:
            if self._tries_left <= 0:
                raise EngineUnavailable(f"the program lost its node {_TRIES} times")
            link = await self._fleet.room("")
        except EngineUnavailable as error:
            self._push(Died(str(error)))
            return
        self._fleet.moved[self._past.lost_node] += 1
        self._past.begin_again()
        self._start(link)

    # from the node

    def hear(self, body: bytes) -> None:
        """Handle a part of a message, which is not decoded yet."""
        link = self._link
        try:
            self._left_bytes -= len(body)
            if self._left_bytes < 0:
                raise Violation("more than a program may say")
            for message in wire_messages.read(body):
                self._handle_message(message)
                if self._link is not link:
                    return  # it has ended, or continues elsewhere
        except Violation as breach:
            # Not moved: whatever made the node say that may well be in the program.
            self._push(Died(f"the node of the program sent {breach}"))
            if link is not None:
                link.lose(f"it sent {breach}")
        except Diverged as error:
            self._push(Died(f"a node was lost, and the program cannot be replayed: {error}"))

    def _handle_message(self, message: FromNode) -> None:
        if type(message) is wire_messages.WireAnswered:
            served = self._own.answered(message, self._order.tools)
            if served is not None:
                self._push(served)
            return
        if type(message) is wire_messages.WireServed:
            self._push(self._own.served(message))
            return
        event = self._event(message)
        if event is not None:
            event = self._past.observe(event)
        if isinstance(event, Called) and self._own.names:
            event = self._own.without(event)
        if event is None or (isinstance(event, ReplayTape) and self._order.tape is None):
            return
        if self._stopping is not None and not isinstance(event, _HEARD_TO_THE_END):
            return
        if isinstance(event, Ended) and (unanswered := self._own.unanswered()) is not None:
            self._push(unanswered)
        if isinstance(event, _LAST) and self._link is not None:
            # It has ended there: to close it would only wake the node once more.
            self._link.runs.pop(self._key, None)
            self._link = None
        self._push(event)

    def _event(self, message: FromNode) -> Event | None:
        match message:
            case wire_messages.WireCalled():
                return self._called(message)
            case wire_messages.WirePrinted():
                return Printed(message.text, message.stream, message.cut_bytes, message.is_report)
            case wire_messages.WireWaiting():
                return Waiting(message.replies_seen)
            case wire_messages.WireTaped():
                return ReplayTape(message.wakes, message.clocks, message.is_spoilt)
            case wire_messages.WireEnded():
                return self._ended(message)
            case wire_messages.WireDied():
                return self._died(message)
            case wire_messages.WireFrozen():
                if self._order.on_frozen is not None:
                    self._order.on_frozen(message.held_bytes)
                return None
            case _:
                raise Violation("a part that is not a run's")

    def _called(self, message: wire_messages.WireCalled) -> Called:
        tools = self._order.tools
        if not message.calls or any(not 0 <= place < len(tools) for _, place, *_ in message.calls):
            raise Violation("a call of no tool")
        calls = [
            Call(id=number, tool=tools[place].name, arguments=arguments, line=line, within=within)
            for number, place, arguments, line, within in message.calls
        ]
        self._past.check_ids([call.id for call in calls])
        return Called(*calls)

    def _ended(self, message: wire_messages.WireEnded) -> Ended:
        limits = self._order.limits
        try:
            checked_names(message.files)
        except UsageError:
            raise Violation("a file outside of the data folder") from None
        if len(message.files) > limits.data_files or sum(file.size for file in message.files) > limits.data_bytes:
            raise Violation("more files than there is room for")
        if self._order.session and self._link is not None:
            self._fleet.note_session(self._order.session, self._link if message.keeps_session else None)
        ended = Ended(
            status=message.status, value=message.value, problem=message.problem, files=message.files,
            deleted=message.deleted.intersection(file.name for file in self._order.files), notes=message.notes,
            unmade_calls=message.unmade_calls,
        )  # fmt: skip
        if self._stopping is not None and ended.status != self._stopping.status:
            raise Violation("an end that is not the one that was asked for")
        return ended

    def _died(self, message: wire_messages.WireDied) -> Event | None:
        """The guest broke on a sound node: as in the process engine, unless nothing of the program had run."""
        if message.is_unbegun and self._stopping is None and not self._order.session:
            link, self._link = self._link, None
            if link is not None:
                link.runs.pop(self._key, None)
                self._fleet.rest(link)
                self._past.lost_node = link.facts.address
            self._move()
            return None
        return self._stopping or Died(message.detail)

    # to the node

    def answer(self, reply: Reply) -> None:
        """Hand a reply to the program; ignored once the run is over."""
        if self._state == "over":
            return
        if reply.traceback:  # for people here; it names folders of this host
            reply = structs.replace(reply, traceback="")
        self._past.answered(reply)
        if self._link is not None:
            self._link.send(wire_messages.RunReply(self._key, reply))

    def hold(self) -> None:
        """Pause: the program's timers stand still until `release`."""
        if self._state == "running":
            self._state = "held"
            self._act("hold")

    def release(self) -> None:
        self.release_after(0.0)

    def release_after(self, seconds: float) -> None:
        """Continue, with timers as if so much time had passed; on another node than before, as if none had."""
        if self._state == "held":
            self._state = "running"
            if self._link is None and self._moving is None:
                self._move()
            self._act("release", seconds)

    def ask_for_output(self) -> None:
        self._act("output")

    def _act(self, verb: Literal["hold", "release", "output"], seconds: float = 0.0) -> None:
        if self._link is not None:
            self._link.send(wire_messages.RunCommand(self._key, verb, seconds))

    def stop(self, status: Literal["timeout", "cancelled", "limit"], problem: Problem | None = None) -> None:
        """End the program now; the last event then is an `Ended` with this status."""
        if self._state == "over" or self._stopping is not None:
            return
        self._stopping = Ended(status=status, problem=problem)
        if self._link is None:
            self._push(self._stopping)
            return
        self._link.send(wire_messages.Stop(self._key, status, problem))
        self._timer = asyncio.get_running_loop().call_later(STOP_SECONDS, self._end_stop)

    def _end_stop(self) -> None:
        if self._state != "over" and self._stopping is not None:
            self._push(self._stopping)


# ----------------------------------------------------------------------------------------------------
# Calls of one program that its node serves itself, seen from the runtime. Nothing from the node is trusted. Pure.

_MOST_ERROR_CHARACTERS: Final = 10_000
"""The router cuts an error's text to a fifth of that, and its traceback to less than half."""

_BREAKER: Final = ("", "opened", "closed", "open")


class NodeServedCalls:
    """Calls without a reply yet, served on the node; `past` keeps the replies, for a replay."""

    def __init__(self, past: RunHistory, limits: Limits) -> None:
        self.names: frozenset[str] = frozenset()
        self._past = past
        self._limits = limits
        self._open: dict[int, Call] = {}

    def without(self, called: Called) -> Called | None:
        """The calls that the runtime has to serve; the others wait here for their replies."""
        self._open.update({call.id: call for call in called.calls if call.tool in self.names})
        rest = [call for call in called.calls if call.tool not in self.names]
        return Called(*rest) if rest else None

    def answered(self, message: WireAnswered, tools: Sequence[ToolSpec]) -> Served | None:
        """Calls made and answered since the last ones, `None` for a mere tape; raises `Violation` or `Diverged`."""
        if not self.names:
            raise Violation("a reply to no call of its own")
        past, records = self._past, message.records
        past.observe(ReplayTape(tuple(message.wakes), tuple(message.clocks), message.is_spoilt))
        past.check_ids([record.call_id for record in records])
        served = []
        for record in records:
            name = tools[record.tool].name if 0 <= record.tool < len(tools) else ""
            if name not in self.names:
                raise Violation("a reply to no call of its own")
            call = Call(
                id=record.call_id, tool=name, arguments=record.arguments, line=record.line, within=record.within
            )
            # A call that was in flight on a lost node is known already.
            if not past.observe_served(call) and self._open.pop(call.id, None) is None:
                raise Violation("a reply to no call of its own")
            served.append(ServedCall(call, self._reply(record), record.seconds))
        return Served(served) if served else None

    def served(self, message: WireServed) -> Served:
        """Reply that the program has; raises as `answered`."""
        call = self._open.pop(message.call_id, None)
        if call is None:
            raise Violation("a reply to no call of its own")
        return Served((ServedCall(call, self._reply(message), message.seconds),))

    def _reply(self, record: WireServed | WireRecord) -> Reply:
        past, size, error = self._past, record.size_bytes, record.error
        if not 0 <= record.place <= len(past.replies) and not past.why_not:
            raise Violation("a reply out of order")
        is_small = 0 <= size <= self._limits.reply_bytes and (error is None or len(error) <= _MOST_ERROR_CHARACTERS)
        if record.traceback and (error is None or len(record.traceback) > _MOST_ERROR_CHARACTERS):
            raise Violation("a traceback that no router gives")
        if not is_small or not 0 <= record.seconds < math.inf or record.attempts < 0 or record.breaker not in _BREAKER:
            raise Violation("a reply that no router gives")
        meta = None
        if record.attempts != 1 or record.breaker:
            meta = ReplyMeta(attempts=record.attempts, breaker=record.breaker)
        # A router measures values only; of an error, the record has the size of its text.
        measured = size if error is None else None
        reply = Reply(call_id=record.call_id, value=record.value, error=error, size_bytes=measured, meta=meta)
        past.served(record.place, reply, size)
        # Not for the past: it is for people here, and another node that the program moves to has no use for it.
        return structs.replace(reply, traceback=record.traceback) if record.traceback else reply

    def unanswered(self) -> Served | None:
        """Calls that the program did not wait for, which may have run; `None` if there are none."""
        open_calls, self._open = self._open, {}
        if not open_calls:
            return None
        error = "the program ended before the reply"
        return Served([ServedCall(call, Reply(call_id=call.id, error=error), 0.0) for call in open_calls.values()])


# ----------------------------------------------------------------------------------------------------
# Replay history of a run.
#
# The runtime has heard all of it: what a replay repeats is left out.

MOST_REPLY_BYTES: Final = 64 * 1024 * 1024
"""Kept of one program; one that got more cannot be replayed."""


class Diverged(Exception):
    """The replay is not what was heard."""


class RunHistory:
    """History of one program."""

    def __init__(self, tape: ReplayTape) -> None:
        self._wakes, self._clocks = list(tape.wakes), list(tape.clocks)
        self.replies: list[Reply] = []
        """In the order in which the program got them."""
        self.settled: list[int] = []
        """Ids of calls that a node served itself."""
        self._reply_bytes = 0
        self._calls: list[Call | bytes] = []
        """Calls to compare a replay with: as a digest, or as they are where no tool here can change them."""
        self._output_characters = {"stdout": 0, "stderr": 0}
        self._replay_characters = {"stdout": 0, "stderr": 0}
        """Characters that a replay has to repeat before it prints anything new."""
        self._calls_again = 0
        self._last_id = 0
        self.lost_node = ""
        """Address of its last node, if that is lost."""
        self.why_not = ""
        """Why it cannot be replayed; empty if it can."""

    @property
    def tape(self) -> ReplayTape:
        return ReplayTape(tuple(self._wakes), tuple(self._clocks))

    def answered(self, reply: Reply) -> None:
        size = reply.size_bytes if reply.size_bytes is not None else len(encode(reply.value))
        self._keep(len(self.replies), reply, size)

    def served(self, place: int, reply: Reply, size: int) -> None:
        """Add a reply of a node, which the program got before those that were on their way then."""
        self.settled.append(reply.call_id)
        self._keep(place, reply, size)

    def _keep(self, place: int, reply: Reply, size: int) -> None:
        self._reply_bytes += size
        if self._reply_bytes > MOST_REPLY_BYTES:
            self.why_not = f"it got more than {MOST_REPLY_BYTES >> 20} MiB of replies"
            self.replies.clear()
        if not self.why_not:
            self.replies.insert(place, reply)

    def begin_again(self) -> None:
        self._replay_characters = dict(self._output_characters)
        self._calls = [call if isinstance(call, bytes) else _key(call) for call in self._calls]
        self._calls_again = len(self._calls)
        self._last_id = 0

    def check_ids(self, ids: list[int]) -> None:
        """Raise `Violation` unless these are the ids of the next calls."""
        first, self._last_id = self._last_id + 1, self._last_id + len(ids)
        if ids != list(range(first, self._last_id + 1)):
            raise Violation("calls out of order")

    def observe(self, event: Event) -> Event | None:
        """The event, or what is new of it; `Diverged` if the program does not repeat what it did."""
        if isinstance(event, Called):
            return self._called(event)
        if isinstance(event, Printed):
            return self._printed(event)
        if isinstance(event, ReplayTape):
            if event.is_spoilt:
                self.why_not = "it used threads, or read the clock too often"
            self._wakes += event.wakes
            self._clocks += event.clocks
        return event

    def _called(self, event: Called) -> Called | None:
        new = []
        for call in event.calls:
            if not self._is_repeated(call):
                self._calls.append(_key(call))
                new.append(call)
        return Called(*new) if new else None

    def observe_served(self, call: Call) -> bool:
        """Add a call that a node has served; whether it is new. Raises as `observe`."""
        if self._is_repeated(call):
            return False
        self._calls.append(call)
        return True

    def _is_repeated(self, call: Call) -> bool:
        if call.id > self._calls_again:
            return False
        if self._calls[call.id - 1] != _key(call):
            raise Diverged(f"call {call.id} of {call.tool!r} is not the one that it made before")
        return True

    def _printed(self, event: Printed) -> Printed | None:
        again = min(self._replay_characters[event.stream], len(event.text))
        self._replay_characters[event.stream] -= again
        self._output_characters[event.stream] += len(event.text) - again
        if not again:
            return event
        rest = event.text[again:]
        return Printed(rest, event.stream, event.cut_bytes, event.is_report) if rest or event.cut_bytes else None


def _key(call: Call) -> bytes:
    return hashlib.blake2b(encode((call.tool, call.arguments)), digest_size=16).digest()
