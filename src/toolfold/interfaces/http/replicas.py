"""Replicas that share a ledger: leases, forwarding to the holder, and checks that they agree.

1. The replica that holds an execution answers for it. A request that arrives elsewhere is forwarded, once.
2. If the holder is gone, its lease must expire first; then the replica that has the request takes over.
3. A holder that has lost an execution ends its guest. Until it notices, the epoch keeps it from writing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from toolfold.errors import LedgerFailed, UsageError
from toolfold.interfaces.http.access.rate_limits import while_connected
from toolfold.interfaces.http.execution_state import Hangup
from toolfold.interfaces.http.forward import MISDIRECTED, MOVED, REPLICA_REPLACED, Forwarder, VerifiedSender
from toolfold.interfaces.http.render import Refusal
from toolfold.interfaces.http.requests import ForwardedRequest, ForwardedResponse
from toolfold.ledger.redis.leases import Leases
from toolfold.ledger.redis.store import RedisLedger
from toolfold.runtime import Runtime

LEASE_SECONDS: Final = 10.0
_BEATS_PER_LEASE: Final = 3
_PATIENCE_LEASES: Final = 3
"""How long a request waits for a holder that renews its leases and cannot be reached."""
_TELL_SECONDS: Final = 5.0
_REAP_SECONDS: Final = 30.0
_REAPED_AT_ONCE: Final = 10
_REMEMBERED: Final = 4096
_log: Final = logging.getLogger(__name__)


class Replicas:
    """Leases, their renewal, and requests from replica to replica.

    Args:
        ledger: The one that all replicas share.
        key: Signs tokens; the same at all replicas.
        address: Where the others reach this one, such as `http://10.0.0.5:8000`; can be set later.
        base_path: The same at all replicas.
        lease_seconds: How long the others wait for a replica that is gone.
        longest_seconds: The longest that an execution may take from its start to its end.
        key_kept_as: The name under which the ledger keeps the key for later replicas; empty if it does not.
        files: Identifies the folder of the sessions' files; it must be the same at all replicas, or files are lost.
    """

    are_there = True

    def __init__(
        self, ledger: RedisLedger, key: bytes, *, address: str = "", base_path: str = "",
        lease_seconds: float = LEASE_SECONDS, longest_seconds: float = 300.0, files: str = "", key_kept_as: str = "",
    ) -> None:  # fmt: skip
        self.id = secrets.token_hex(8)
        self._ledger = ledger
        self._forwarder = Forwarder(key)
        self._address = address
        self._base_path = base_path
        self._seconds = lease_seconds
        self._longest_seconds = longest_seconds
        self._own = ""
        self._cached_leases: Leases | None = None
        self._last_owners: dict[str, str] = {}
        """Who held executions that were asked for here."""
        self._beating: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._agreement = Agreement(ledger, key, key_kept_as=key_kept_as, files=files)
        self._has_ledger = True
        """At the last beat; only a change is news for the log."""

    def listens_at(self, address: str) -> None:
        """The address to advertise unless the config has one; empty if others cannot reach it."""
        self._address = self._address or address

    def open(self, runtime: Runtime, lose: Callable[[str], Awaitable[None]]) -> None:
        """Begin to renew leases; `lose` ends an execution that another replica has taken."""
        _ = self._leases  # before anything is written
        self._agreement.open(self._seconds)
        self._beating = asyncio.create_task(self._beat(runtime, lose), name="toolfold-replica")

    async def close(self) -> None:
        """Release everything to the others at once."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        for task in tuple(self._tasks):
            await task
        with suppress(LedgerFailed):
            await self._leases.release((), is_leaving=True)
            await self._agreement.close(self._leases)
        await self._forwarder.close()

    def receive(self, signed: str, request: ForwardedRequest) -> VerifiedSender:
        """Check a request that another replica forwarded, before its body has arrived.

        Raises:
            Refusal: No replica sent it, or it is meant for another one.
        """
        return self._forwarder.receive(signed, request, self.id)

    # who holds it

    async def forward(self, execution_id: str, request: ForwardedRequest) -> ForwardedResponse | None:
        """The answer of the replica that holds an execution; `None` if only this one may hold it.

        Raises:
            Refusal: Another replica holds it and cannot be reached.
        """
        patience = time.monotonic() + _PATIENCE_LEASES * self._seconds
        while True:
            # Ask whoever answered last time without a look at the lease: it says so if it no longer holds it.
            remembered = None if request.is_from_replica else self._last_owners.pop(execution_id, None)
            owner = remembered or await self._leases.owner_of(execution_id)
            if owner is None or owner == self._own:
                return None
            if request.is_from_replica:
                raise Refusal(MISDIRECTED, MOVED, is_contract=False)
            replica, _, address = owner.partition(" ")
            response = await self._ask(execution_id, request, owner) if address else None
            if response is not None and response.status != MISDIRECTED:
                self._remember(execution_id, owner)
                return response
            if response is not None and _error_text(response) == REPLICA_REPLACED:
                _log.warning("replica %s is gone; its executions are released", replica)
                await self._leases.release([execution_id], owner=owner)
            elif time.monotonic() > patience:
                raise _unreachable_refusal(address)
            elif response is None and not remembered:
                await asyncio.sleep(self._pause_seconds)

    def _remember(self, execution_id: str, owner: str) -> None:
        self._last_owners[execution_id] = owner
        if len(self._last_owners) > _REMEMBERED:
            del self._last_owners[next(iter(self._last_owners))]

    async def _ask(self, execution_id: str, request: ForwardedRequest, owner: str) -> ForwardedResponse | None:
        """The holder's answer, unless it loses the execution first."""
        replica, _, address = owner.partition(" ")
        task = asyncio.create_task(self._forwarder.send(request, replica, address))
        try:
            while not task.done():
                await asyncio.wait([task], timeout=self._seconds / _BEATS_PER_LEASE)
                if not task.done() and not await self._still_holds(execution_id, owner):
                    # It may have released the execution just before it answered, so wait a moment longer.
                    await asyncio.wait([task], timeout=self._pause_seconds)
                    break
            return task.result() if task.done() else None
        finally:
            task.cancel()

    async def _still_holds(self, execution_id: str, owner: str) -> bool:
        try:
            return await self._leases.owner_of(execution_id) == owner
        except LedgerFailed:
            return True  # without the ledger, nobody can take it over

    async def claim(self, execution_id: str) -> bool:
        """Hold an execution before it begins, until `unclaim`; false if another replica does already."""
        return await self._leases.claim(execution_id)

    def unclaim(self, execution_id: str) -> None:
        """It has begun, or never will."""
        self._leases.unclaim(execution_id)

    async def confirm(self, execution_id: str) -> None:
        """Return if no other replica can have this execution now; for `Runtime(before_files=...)`."""
        await self._leases.confirm(execution_id)

    async def release(self, executions: list[str]) -> None:
        """Others may take these over at once."""
        with suppress(LedgerFailed):
            await self._leases.release(executions)

    async def broadcast(self, request: ForwardedRequest) -> None:
        """The same request to every other replica, whatever they say."""
        if request.is_from_replica:
            return
        peers = [owner.partition(" ") for owner in await self._leases.replicas() if owner != self._own]
        requests = [self._forwarder.send(request, replica, address) for replica, _, address in peers if address]
        with suppress(TimeoutError):
            async with asyncio.timeout(_TELL_SECONDS):
                await asyncio.gather(*requests)

    # turns of sessions

    async def enter_session(self, session: str, turn: str, hangup: Hangup | None = None) -> None:
        """Wait until no execution of another replica has the session.

        Raises:
            Refusal: 499 if `hangup` said so before that.
        """
        # Polled, because another process holds the turn. The client is only watched in between: a turn that is being
        # taken must not be left without an owner.
        while not await self._leases.take_turn(session, turn):
            async with while_connected(hangup):
                await asyncio.sleep(self._pause_seconds)

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        """Give the turn back; a lost execution keeps it for the replica that continues it."""
        turn = self._leases.forget_turn(session)
        if turn and not is_lost:
            task = asyncio.create_task(self._end_turn(session, turn))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _end_turn(self, session: str, turn: str) -> None:
        with suppress(LedgerFailed):  # it lapses by itself
            await self._leases.end_turn(session, turn)

    # the heart

    async def _beat(self, runtime: Runtime, lose: Callable[[str], Awaitable[None]]) -> None:
        reap_at = time.monotonic()
        while True:
            try:
                lost_ids = await self._leases.beat(runtime.executions.ids)
                self._has_ledger = True
                for execution_id in lost_ids:
                    _log.warning("execution %s was taken over by another replica", execution_id)
                    await lose(execution_id)
                await self._agreement.check(self._leases, self._own, self._address)
                if time.monotonic() >= reap_at and not await self._reap(runtime):
                    reap_at = time.monotonic() + min(_REAP_SECONDS, self._longest_seconds)
            except LedgerFailed as error:
                if self._has_ledger:
                    _log.error("leases cannot be renewed: %s", error)
                self._has_ledger = False
            # Whatever happens, the heartbeat must continue: without it every lease of this replica expires.
            except Exception:  # noqa: BLE001
                _log.exception("a lease could not be renewed")
            await asyncio.sleep(self._seconds / _BEATS_PER_LEASE)

    async def _reap(self, runtime: Runtime) -> bool:
        """End executions that a dead replica left behind and no client can continue; true if there are more.

        Only a few between two beats, because no lease is renewed meanwhile.
        """
        orphan_ids = await self._leases.find_abandoned(self._longest_seconds + self._seconds)
        for execution_id in orphan_ids[:_REAPED_AT_ONCE]:
            await runtime.executions.end_recorded(execution_id, "timeout")
        return len(orphan_ids) > _REAPED_AT_ONCE

    @property
    def _leases(self) -> Leases:
        """Made on first use, when the address is known."""
        if self._cached_leases is None:
            path = self._base_path if self._address else ""
            self._own = f"{self.id} {self._address.rstrip('/')}{path}"
            self._cached_leases = self._ledger.hold_as(self._own, self._seconds)
        return self._cached_leases

    @property
    def _pause_seconds(self) -> float:
        return min(0.25, self._seconds / 10)


def validate_address(address: str) -> str:
    """An address for other replicas.

    Raises:
        UsageError: It is none.
    """
    scheme, separator, rest = address.partition("://")
    if scheme not in ("http", "https") or not separator or not rest or any(sign in rest for sign in " ?#@"):
        raise UsageError(
            f"{address!r} is not an address at which other replicas can reach this one; write one like http://10.0.0.5:8000"
        )
    return address


def _error_text(response: ForwardedResponse) -> str:
    with suppress(msgspec.DecodeError, TypeError, KeyError):
        return str(msgspec.json.decode(response.body)["error"])
    return ""


def _unreachable_refusal(address: str) -> Refusal:
    if not address:
        return Refusal(
            503, "the replica that holds this execution has no address; start each with --advertise", is_contract=False
        )
    return Refusal(503, "the replica that holds this execution cannot be reached; try again", is_contract=False)


# ----------------------------------------------------------------------------------------------------
# What replicas must agree on, looked at with each beat: addresses, the folder of files, the key for tokens.
#
# Each disagreement is logged once: it is the operator's to mend, and nothing here can.

_FILES: Final = "."
"""No session is called so: each has its tenant's name in front."""


class Agreement:
    """One replica's part in it.

    Args:
        ledger: The one that all replicas share.
        key: Of the tokens.
        key_kept_as: The name under which the ledger keeps the key; empty where it does not.
        files: Names the folder of the sessions' files; empty where there is none.
    """

    def __init__(self, ledger: RedisLedger, key: bytes, *, key_kept_as: str, files: str) -> None:
        self._ledger = ledger
        self._key = key
        self._key_kept_as = key_kept_as
        self._files = files
        self._alone_at = 0.0
        """When whoever had this address before has certainly gone, by the monotonic clock."""
        self._is_out_of_reach = False
        self._has_seen_others = False
        self._has_other_files = False
        self._has_lost_key = False

    def open(self, lease_seconds: float) -> None:
        """The first beat is near."""
        self._alone_at = time.monotonic() + lease_seconds

    async def close(self, leases: Leases) -> None:
        """Withdraw from the agreement; later replicas may store files elsewhere."""
        await leases.end_turn(_FILES, self._files)

    async def check(self, leases: Leases, own: str, address: str) -> None:
        """Look at all of it, and log what is wrong.

        Args:
            leases: Of this replica.
            own: What this replica is called among the others.
            address: Where they reach it; empty where they cannot.
        """
        if address:
            await self._tell_if_address_is_shared(leases, own)
        else:
            await self._tell_if_out_of_reach(leases, own)
        await self._tell_if_files_differ(leases)
        await self._agree_on_key()

    async def _tell_if_out_of_reach(self, leases: Leases, own: str) -> None:
        if self._is_out_of_reach or set(await leases.replicas()) <= {own}:
            return
        self._is_out_of_reach = True
        _log.error(
            "another replica shares this ledger, but this one has no address at which others can reach it; "
            "give each its own with --advertise, or http.advertise"
        )

    async def _tell_if_address_is_shared(self, leases: Leases, own: str) -> None:
        # Not at once: one that was killed at this address is listed until its lease has lapsed. And only once:
        # whoever comes later sees this one.
        if self._has_seen_others or time.monotonic() < self._alone_at:
            return
        at = own.partition(" ")[2]
        other_owners = [owner for owner in await leases.replicas() if owner != own]
        self._has_seen_others = True
        if any(owner.partition(" ")[2] == at for owner in other_owners):
            _log.warning(
                "another replica also claims the address %r; give each its own with --advertise, or http.advertise", at
            )

    async def _tell_if_files_differ(self, leases: Leases) -> None:
        # As a turn that all who have the same folder share, and the others cannot get.
        if self._files and not self._has_other_files and not await leases.take_turn(_FILES, self._files):
            self._has_other_files = True
            _log.error("other replicas store session files elsewhere; name one shared folder in http.files")

    async def _agree_on_key(self) -> None:
        """A server that lost its data has no key for tokens: whoever starts next must not make another."""
        if not self._key_kept_as:
            return
        match await self._ledger.agree(self._key_kept_as, self._key):
            case "put back":
                _log.error(
                    "the ledger's server lost its data; paused executions are gone, and the key for tokens was restored"
                )
            case "another" | "gone" if not self._has_lost_key:
                self._has_lost_key = True
                _log.error("the ledger's server lost its data, including the key for tokens; restart all replicas")
