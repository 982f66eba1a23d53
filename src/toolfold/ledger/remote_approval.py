"""Remote approvals: decisions of a person in another process, kept in a ledger that the waiting process follows.

The first decision on a call is the one that counts. It is sealed with a key that only those have who may decide,
and bound to the execution, its epoch, the call and the arguments that were shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import fields
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from toolfold.errors import SealBroken, ToolfoldError, UsageError, install_extra
from toolfold.ledger.base import Ledger
from toolfold.ledger.encryption import Seal
from toolfold.ledger.execution_summaries import changed_ids
from toolfold.models import Call, ToolSpec, Value
from toolfold.protocol.codec import decoder, encode
from toolfold.tools.tool import Approve, Decision

_PERSON: Final = b"toolfold-decide"
_log: Final = logging.getLogger(__name__)

AskClient: TypeAlias = Callable[[Call, ToolSpec], Awaitable[Decision | None]]
"""Asks the client that sent the program; `None` decides nothing, and the question stays open."""


class DecisionStore(Protocol):
    """The part of a ledger that carries decisions."""

    async def decide(self, execution_id: str, epoch: int, call_id: int, body: bytes) -> bool:
        """Keep the decision on a call, and have followers told; false if there is one already."""

    async def decision(self, execution_id: str, epoch: int, call_id: int) -> bytes | None:
        """Body of the decision on a call."""


class _Digest(msgspec.Struct, frozen=True):
    digest: bytes


_decode_decision: Final = decoder(Decision).decode
_decode_digest: Final = decoder(_Digest).decode
"""Of the arguments, which is stored among the fields of the decision."""


def arguments_digest(arguments: Mapping[str, Value]) -> str:
    """Digest of the arguments that a person was shown."""
    return hashlib.sha256(encode(_sort_keys(arguments))).hexdigest()[:32]


def decision_seal(ledger: Ledger) -> Seal:
    """Seal of decisions: made from the ledger's key, from its shared secret, or from this user's own.

    Raises:
        UsageError: There is no such key, or `cryptography` is not installed.
    """
    shared = getattr(ledger, "shared_secret", None)
    own = ledger.snapshot_seal()
    if shared is not None and not ledger.is_sealed:
        return Seal(hashlib.blake2b(shared("decisions"), person=_PERSON, digest_size=32).digest())
    if own is None:
        raise UsageError(f"decisions need a key; let the state folder be written, and {install_extra('sealed')}")
    return Seal(own.subkey(_PERSON))


def lock(decision: Decision, seal: Seal, *, execution_id: str, epoch: int, call_id: int, digest: str) -> bytes:
    """Decision as the ledger keeps it."""
    values = {field.name: getattr(decision, field.name) for field in fields(decision)}
    values["arguments"] = None if decision.arguments is None else dict(decision.arguments)
    return seal.seal(encode({**values, "digest": digest.encode()}), _place(execution_id, epoch, call_id))


async def decide(ledger: Ledger, execution_id: str, epoch: int, call_id: int, decision: Decision, digest: str) -> bool:
    """Put a decision on record, which must carry decisions, as all of ours do; false if there is one already."""
    body = lock(decision, decision_seal(ledger), execution_id=execution_id, epoch=epoch, call_id=call_id, digest=digest)
    store: DecisionStore = ledger  # type: ignore[assignment]  # as this says
    return await store.decide(execution_id, epoch, call_id, body)


class LedgerApproval:
    """An `Approve` that leaves the answer to whoever reads the ledger: a console.

    Args:
        ledger: Must carry decisions.
        wait_seconds: For an answer; after that it is a no.
        client: Asked at the same time; the first answer on record counts, whoever gave it.
    """

    def __init__(self, ledger: Ledger, *, wait_seconds: float, client: AskClient | None = None) -> None:
        self._ledger = ledger
        self.wait_seconds = wait_seconds
        self._client = client
        self._seal: Seal | None = None
        self._waiting: dict[tuple[str, int, int], asyncio.Future[bytes]] = {}
        self._follow_task: asyncio.Task[None] | None = None

    async def __call__(self, call: Call, spec: ToolSpec) -> Decision:
        """Outside of an execution nobody can find the question."""
        return Decision(approved=False, reason="it needs approval, and a direct call cannot wait for it")

    def of(self, execution_id: str, epoch: int, standing: Callable[[], AbstractContextManager[None]]) -> Approve:
        """Approval of the calls of one execution, whose clock stands still meanwhile."""

        async def approve(call: Call, spec: ToolSpec) -> Decision:
            with standing():
                return await self._wait_for_decision((execution_id, epoch, call.id), call, spec)

        return approve

    async def _wait_for_decision(self, place: tuple[str, int, int], call: Call, spec: ToolSpec) -> Decision:
        seal = self._seal = self._seal or decision_seal(self._ledger)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[place] = answer
        if self._follow_task is None or self._follow_task.done():
            self._follow_task = asyncio.create_task(self._follow())
        client_task = (
            None if self._client is None else asyncio.create_task(self._ask_client(self._client, place, call, spec))
        )
        try:
            async with asyncio.timeout(self.wait_seconds):
                return self._open_decision(await answer, seal, place, call)
        except TimeoutError:
            return Decision(approved=False, reason=f"nobody answered within {self.wait_seconds:g} s")
        finally:
            del self._waiting[place]
            if client_task is not None:
                client_task.cancel()
            if not self._waiting and self._follow_task is not None:
                self._follow_task.cancel()

    async def _ask_client(self, client: AskClient, place: tuple[str, int, int], call: Call, spec: ToolSpec) -> None:
        """Put the client's answer on record as a console's is: of two that come at once, one counts."""
        try:
            decision = await client(call, spec)
        # It may raise anything; people at a console can still answer.
        except Exception:  # noqa: BLE001 - as above
            _log.exception("asking the client for approval of %r failed", call.tool)
            return
        answer = self._waiting.get(place)
        if decision is None or answer is None:
            return
        execution_id, epoch, call_id = place
        assert self._seal is not None
        body = lock(
            decision, self._seal, execution_id=execution_id, epoch=epoch, call_id=call_id,
            digest=arguments_digest(call.arguments),
        )  # fmt: skip
        # Every ledger of ours carries decisions.
        ledger: DecisionStore = self._ledger  # type: ignore[assignment]
        with suppress(ToolfoldError):  # a ledger that is away counts nobody else's answer either
            if not await ledger.decide(*place, body):
                body = await ledger.decision(*place) or body
        if not answer.done():
            answer.set_result(body)

    def _open_decision(self, body: bytes, seal: Seal, place: tuple[str, int, int], call: Call) -> Decision:
        try:
            values = seal.open(body, _place(*place))
            decision, digest = _decode_decision(values), _decode_digest(values).digest
        except (SealBroken, msgspec.MsgspecError, ValueError):
            return Decision(approved=False, reason="the decision was made with another key")
        if decision.approved and digest.decode() != arguments_digest(call.arguments):
            return Decision(approved=False, reason="the decision was on other arguments")
        return decision

    async def _follow(self) -> None:
        async with aclosing(changed_ids(self._ledger)) as ids:
            async for execution_id in ids:
                await self._look(execution_id)

    async def _look(self, execution_id: str) -> None:
        ledger: Any = self._ledger
        for place, answer in tuple(self._waiting.items()):
            if execution_id in ("", place[0]) and not answer.done():
                try:
                    body = await ledger.decision(*place)
                except ToolfoldError:
                    continue  # asked again with the next change
                if body is not None and not answer.done():
                    answer.set_result(body)


def _place(execution_id: str, epoch: int, call_id: int) -> str:
    return f"{execution_id}/{epoch}/{call_id}/decision"


def _sort_keys(value: Value) -> Value:
    if isinstance(value, Mapping):
        return {key: _sort_keys(value[key]) for key in sorted(value, key=str)}
    return [_sort_keys(item) for item in value] if isinstance(value, list | tuple) else value
