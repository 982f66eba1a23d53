"""What the console's API lets people do: decide, cancel, check, run again, try a tool."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final, Literal

import msgspec
from fastapi import Request, Response

from toolfold.doors.console import shapes
from toolfold.doors.console.access import Access, Viewer, hidden_from, seen_by
from toolfold.doors.console.watch import Watch
from toolfold.errors import ToolfoldError, UsageError
from toolfold.execution.background import BackgroundExecution
from toolfold.interfaces.http.access.rate_limits import Gate
from toolfold.interfaces.http.body import client_left
from toolfold.interfaces.http.render import Refusal
from toolfold.interfaces.http.responses import json_response
from toolfold.ledger.base import History, Ledger
from toolfold.ledger.remote_approval import Decisive, decision_seal, lock
from toolfold.models import MIB, Outcome
from toolfold.runtime import Runtime
from toolfold.tools.tool import Decision

MOST_BODY_BYTES: Final = 2 * MIB
_SETTLE_SECONDS: Final = 0.3
_TRIED_SECONDS: Final = 60.0


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A decision on one call, with what the person was shown."""

    execution_id: str
    epoch: int
    call_id: int
    digest: str
    approved: bool
    reason: str = ""
    arguments: dict[str, Any] | None = None
    covers: Literal["call", "arguments", "tool"] = "call"


class _Choices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    decisions: list[Choice]


class _Text(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    arguments: dict[str, Any]


class Actions:
    """The routes that change something: each needs the right to act."""

    def __init__(self, ledger: Ledger, watch: Watch, runtime: Runtime, access: Access, gate: Gate) -> None:
        self._ledger = ledger
        self._watch = watch
        self._runtime = runtime
        self._access = access
        self._gate = gate
        self._reruns: set[asyncio.Task[None]] = set()

    async def decide(self, request: Request) -> Response:
        """Approve or deny calls that wait.

        `{"decisions": [{"execution_id", "epoch", "call_id", "digest", "approved"}]}`: all but `approved` as the
        question has them; `reason`, changed `arguments` and `covers` may be given. The first decision on a call
        counts: `results` says of each whether it was this one.
        """
        viewer = await self._access.actor(request, "approve")
        asked = await _read(request, _Choices)
        if not 0 < len(asked.decisions) <= 1000:
            raise Refusal(400, "give 1 to 1,000 decisions")
        return json_response(200, {"results": [await self._decided(viewer, one) for one in asked.decisions]})

    async def _decided(self, viewer: Viewer, choice: Choice) -> dict[str, Any]:
        place = {"execution_id": choice.execution_id, "call_id": choice.call_id}
        live = self._watch.live.get(choice.execution_id)
        if live is None or viewer.tenant not in (None, live.begun.tenant):
            return {**place, "counts": False, "why": "it has ended, or never waited"}
        question = live.asked.get(choice.call_id)
        if question is None:
            return {**place, "counts": False, "why": "it does not wait any more"}
        if choice.epoch != live.epoch:
            return {**place, "counts": False, "why": "another process has the program now; look again"}
        if choice.digest != shapes.of_question(question, hidden=True)["digest"]:
            return {**place, "counts": False, "why": "its arguments are not the ones that were shown"}
        try:
            decision = Decision(
                approved=choice.approved, reason=choice.reason, arguments=choice.arguments, covers=choice.covers,
                by=viewer.name,
            )  # fmt: skip
        except UsageError as error:
            return {**place, "counts": False, "why": str(error)}
        seal = decision_seal(self._ledger)
        body = lock(
            decision, seal, execution_id=choice.execution_id, epoch=choice.epoch, call_id=choice.call_id,
            digest=choice.digest,
        )  # fmt: skip
        # Every ledger of ours carries decisions.
        ledger: Decisive = self._ledger  # type: ignore[assignment]
        is_first = await ledger.decide(choice.execution_id, choice.epoch, choice.call_id, body)
        return {**place, "counts": is_first, **({} if is_first else {"why": "it was decided already, or has ended"})}

    async def cancel(self, request: Request, execution_id: str) -> Response:
        """End an execution: at once if it runs here, elsewhere at its next word to the ledger."""
        viewer = await self._access.actor(request, "run")
        history = seen_by(viewer, await self._ledger.load(execution_id), execution_id)
        if history.state == "ended":
            raise Refusal(409, f"execution {execution_id!r} has ended")
        if execution_id in self._runtime.executions:
            await self._runtime.cancel(execution_id)
        elif not await self._runtime.end_recorded(execution_id):
            raise Refusal(409, f"execution {execution_id!r} is held by a replica; cancel it there")
        return json_response(202, {"status": "cancelled"})

    async def check(self, request: Request) -> Response:
        """What the static check says of a program, `{"text": ...}`; it is not run."""
        viewer = await self._access.actor(request, "run")
        text = (await _read(request, _Text)).text
        hidden = hidden_from(self._runtime, viewer)
        problem = await self._runtime.check(text, hidden=hidden, tenant=viewer.tenant or "")
        return json_response(200, {"problem": shapes.of_problem(problem)})

    async def rerun(self, request: Request, execution_id: str) -> Response:
        """Run a corrected program, `{"text": ...}`: calls that the earlier one made get the replies they got there.

        It counts as a program of the same tenant: 429 where that may not start another.
        """
        viewer = await self._access.actor(request, "run")
        history = seen_by(viewer, await self._ledger.load(execution_id), execution_id)
        text = (await _read(request, _Text)).text
        known = {spec.name for spec in self._runtime.tools}
        missing = sorted({record.name for record in _calls(history)} - known)
        if missing:
            names = ", ".join(map(repr, missing[:5]))
            raise Refusal(409, f"this console does not have the tools {names}; start it with the program's own config")
        begun = history.begun
        self._gate.start(begun.tenant)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._gate.turn(begun.tenant, partial(client_left, request)))
            started = await self._runtime.start(
                text, background=True, files=begun.files, limits=begun.limits, rerun_of=execution_id, repeat=(),
                tenant=begun.tenant,
            )  # fmt: skip
            task = asyncio.create_task(_until_over(started, stack.pop_all()))
            self._reruns.add(task)
            task.add_done_callback(self._reruns.discard)
        step = await started.wait(_SETTLE_SECONDS)
        # One that was rejected has an id of its own: nothing of it ran.
        new_id = step.execution_id if isinstance(step, Outcome) else started.id
        return json_response(202, {"execution_id": new_id})

    async def call(self, request: Request, name: str) -> Response:
        """Try a tool: one direct call, `{"arguments": {...}}`, through the router, on record."""
        viewer = await self._access.actor(request, "run")
        if viewer.tenant is not None:
            # A direct call is nobody's: no rule on who may call what would hold it.
            raise Refusal(403, "only the operator of this console tries tools; call it in a program")
        asked = await _read(request, _Arguments)
        try:
            async with asyncio.timeout(_TRIED_SECONDS):
                reply = await self._runtime.call(name, asked.arguments)
        except TimeoutError as error:
            raise Refusal(504, f"{name!r} did not answer within {_TRIED_SECONDS:g} s") from error
        shown = {"error": reply.error, "reply": None if reply.error is not None else shapes.folded(reply.value)}
        return json_response(200, shown)


async def _until_over(started: BackgroundExecution, turn: AsyncExitStack) -> None:
    """Hold a turn as long as a program runs, whether or not anybody waits for it."""
    async with turn:
        with suppress(ToolfoldError):  # told to whoever looks at its record
            await started.wait()


# Any: a body of any shape.
async def _read(request: Request, shape: type[Any]) -> Any:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "send a body of type application/json")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY_BYTES:
            raise Refusal(413, f"the body is larger than {MOST_BODY_BYTES} bytes")
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(400, f"the body is not what this takes: {error}") from error


def _calls(history: History) -> list[Any]:
    return [] if history.outcome is None else list(history.outcome.calls)
