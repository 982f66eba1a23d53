"""Owners of executions: this process alone, one of several with leases on a ledger, or a locked file each.

1. The owner of an execution answers for it.
2. If the owner is gone, its lease must expire first; then whoever has the next request takes over.
3. An owner that has lost an execution ends its guest. Until it notices, the epoch keeps it from writing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from toolfold.errors import LedgerFailed
from toolfold.file_locks import has_lost_owner, open_locked
from toolfold.service.wait_for_execution import WaitableExecution

if TYPE_CHECKING:
    from toolfold.ledger.redis.leases import Leases
    from toolfold.ledger.redis.store import RedisLedger
    from toolfold.runtime import Runtime

_T = TypeVar("_T")
Waiting: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Entered around each wait for others, which it may cut short by an exception."""
LEASE_SECONDS: Final = 10.0
_BEATS_PER_LEASE: Final = 3
_REAP_SECONDS: Final = 30.0
_REAPED_AT_ONCE: Final = 10
_log: Final = logging.getLogger(__name__)


class Owner:
    """The only process that uses its ledger: every execution is here, or on record.

    A session belongs to one execution at a time, from its start to its end.
    """

    is_shared = False
    """Whether other processes may own executions of the same ledger."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: Counter[str] = Counter()

    async def claim(self, execution_id: str) -> bool:
        """Own an execution before it begins, until `unclaim`; false if another process does already."""
        return True

    def unclaim(self, execution_id: str) -> None:
        """End a claim: the execution has begun, or never will."""

    async def release(self, execution_ids: list[str]) -> None:
        """Let others take these over at once."""

    async def enter_session(self, session: str, execution_id: str, waiting: Waiting = nullcontext) -> None:
        """Wait until no other execution has the session."""
        self._users[session] += 1
        lock = self._locks.setdefault(session, asyncio.Lock())
        try:
            async with waiting() if lock.locked() else nullcontext():
                await lock.acquire()
        except BaseException:
            self._remove_user(session)
            raise

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        """Give the session back; a lost execution keeps it for the process that continues it."""
        self._locks[session].release()
        self._remove_user(session)

    def _remove_user(self, session: str) -> None:
        self._users[session] -= 1
        if not self._users[session]:
            del self._users[session], self._locks[session]


class LeaseOwner(Owner):
    """One of several processes that share a Redis ledger, each with leases on the executions that it owns.

    Args:
        ledger: Shared by all owners.
        address: Where the others reach this one, such as `http://10.0.0.5:8000`; can be set later.
        base_path: Appended to the address.
        lease_seconds: How long the others wait for an owner that is gone.
        longest_seconds: The longest that an execution may take from its start to its end.
        agreement: Checked with each beat.
    """

    is_shared = True

    def __init__(
        self, ledger: RedisLedger, *, agreement: Agreement, address: str = "", base_path: str = "",
        lease_seconds: float = LEASE_SECONDS, longest_seconds: float = 300.0,
    ) -> None:  # fmt: skip
        super().__init__()
        self.id = secrets.token_hex(8)
        self.name = ""
        """Id and address, as other owners see them; set with the first use of `leases`."""
        self.lease_seconds = lease_seconds
        self._ledger = ledger
        self._agreement = agreement
        self._address = address
        self._base_path = base_path
        self._longest_seconds = longest_seconds
        self._cached_leases: Leases | None = None
        self._beating: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._has_ledger = True
        """At the last beat; only a change is logged."""

    @property
    def leases(self) -> Leases:
        """Created on first use, when the address is known."""
        if self._cached_leases is None:
            path = self._base_path if self._address else ""
            self.name = f"{self.id} {self._address.rstrip('/')}{path}"
            self._cached_leases = self._ledger.hold_as(self.name, self.lease_seconds)
        return self._cached_leases

    @property
    def beat_seconds(self) -> float:
        return self.lease_seconds / _BEATS_PER_LEASE

    @property
    def pause_seconds(self) -> float:
        """Between two looks at a lease that another owner has."""
        return min(0.25, self.lease_seconds / 10)

    def listens_at(self, address: str) -> None:
        """Set the address to advertise unless there is one; empty if others cannot reach it."""
        self._address = self._address or address

    def open(self, runtime: Runtime, lose: Callable[[str], Awaitable[None]]) -> None:
        """Begin to renew leases; `lose` ends an execution that another owner has taken."""
        _ = self.leases  # before anything is written
        self._agreement.open(self.lease_seconds)
        self._beating = asyncio.create_task(self._beat(runtime, lose), name="toolfold-owner")

    async def close(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
        for task in tuple(self._tasks):
            await task
        with suppress(LedgerFailed):
            await self.leases.release((), is_leaving=True)
            await self._agreement.close(self.leases)

    async def claim(self, execution_id: str) -> bool:
        return await self.leases.claim(execution_id)

    def unclaim(self, execution_id: str) -> None:
        self.leases.unclaim(execution_id)

    async def confirm(self, execution_id: str) -> None:
        """Return if no other owner can have this execution now; for `Runtime(before_files=...)`."""
        await self.leases.confirm(execution_id)

    async def release(self, execution_ids: list[str]) -> None:
        with suppress(LedgerFailed):
            await self.leases.release(execution_ids)

    async def enter_session(self, session: str, execution_id: str, waiting: Waiting = nullcontext) -> None:
        await super().enter_session(session, execution_id, waiting)
        try:
            # Polled, because another process holds the turn. Only the pauses can be cut short: a turn that is being
            # taken must not be left without an owner. It has the execution's name, and stays its own wherever it goes.
            while not await self.leases.take_turn(session, execution_id):
                async with waiting():
                    await asyncio.sleep(self.pause_seconds)
        except BaseException:
            super().leave_session(session, is_lost=False)
            raise

    def leave_session(self, session: str, *, is_lost: bool) -> None:
        super().leave_session(session, is_lost=is_lost)
        turn = self.leases.forget_turn(session)
        if turn and not is_lost:
            spawn(self._end_turn(session, turn), self._tasks)

    async def _end_turn(self, session: str, turn: str) -> None:
        with suppress(LedgerFailed):  # it expires by itself
            await self.leases.end_turn(session, turn)

    async def _beat(self, runtime: Runtime, lose: Callable[[str], Awaitable[None]]) -> None:
        reap_at = time.monotonic()
        while True:
            try:
                lost_ids = await self.leases.beat(runtime.executions.ids)
                self._has_ledger = True
                for execution_id in lost_ids:
                    _log.warning("execution %s was taken over by another replica", execution_id)
                    await lose(execution_id)
                await self._agreement.check(self.leases, self.name, self._address)
                if time.monotonic() >= reap_at and not await self._reap(runtime):
                    reap_at = time.monotonic() + min(_REAP_SECONDS, self._longest_seconds)
            except LedgerFailed as error:
                if self._has_ledger:
                    _log.error("leases cannot be renewed: %s", error)
                self._has_ledger = False
            # Whatever happens, the heartbeat must continue: without it every lease of this owner expires.
            except Exception:  # noqa: BLE001
                _log.exception("a lease could not be renewed")
            await asyncio.sleep(self.beat_seconds)

    async def _reap(self, runtime: Runtime) -> bool:
        """End executions that a dead owner left behind and no client can continue; true if there are more.

        Only a few between two beats, because no lease is renewed meanwhile.
        """
        orphan_ids = await self.leases.find_abandoned(self._longest_seconds + self.lease_seconds)
        for execution_id in orphan_ids[:_REAPED_AT_ONCE]:
            await runtime.executions.end_recorded(execution_id, "timeout")
        return len(orphan_ids) > _REAPED_AT_ONCE


# Any: tasks of any result are kept together.
def spawn(work: Coroutine[object, None, _T], tasks: set[asyncio.Task[Any]]) -> asyncio.Task[_T]:
    """Run work that no request owns; `tasks` keeps it from being collected before it is done."""
    task = asyncio.ensure_future(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


# ----------------------------------------------------------------------------------------------------
# What owners must agree on, checked with each beat: addresses, the folder of files, the key for tokens.
#
# Each disagreement is logged once: it is the operator's to mend, and nothing here can.

_FILES: Final = "."
"""No session has this name: each has its tenant's in front."""


class Agreement:
    """One owner's part in the agreement.

    Args:
        ledger: Shared by all owners.
        key: Signs tokens; the same at all owners.
        key_kept_as: The name under which the ledger keeps the key for later owners; empty if it does not.
        files: Identifies the folder of the sessions' files; it must be the same at all owners, or files are lost.
    """

    def __init__(self, ledger: RedisLedger, key: bytes, *, key_kept_as: str, files: str) -> None:
        self._ledger = ledger
        self._key = key
        self._key_kept_as = key_kept_as
        self._files = files
        self._alone_at = 0.0
        """When whoever had this address before has certainly gone, by the monotonic clock."""
        self._settled: set[str] = set()
        """Checks that need not be made again."""

    def open(self, lease_seconds: float) -> None:
        self._alone_at = time.monotonic() + lease_seconds

    async def close(self, leases: Leases) -> None:
        """Withdraw; later owners may store files elsewhere."""
        await leases.end_turn(_FILES, self._files)

    async def check(self, leases: Leases, own: str, address: str) -> None:
        """Log what is wrong; `own` is the owner's name, `address` is empty if others cannot reach it."""
        if address:
            await self._check_address(leases, own)
        else:
            await self._check_reach(leases, own)
        await self._check_files(leases)
        await self._check_key()

    async def _check_reach(self, leases: Leases, own: str) -> None:
        if "reach" in self._settled or set(await leases.replicas()) <= {own}:
            return
        self._settled.add("reach")
        _log.error(
            "another replica shares this ledger, but this one has no address at which others can reach it; "
            "give each its own with --advertise, or http.advertise"
        )

    async def _check_address(self, leases: Leases, own: str) -> None:
        # Not at once: one that was killed at this address is listed until its lease has expired. And only once:
        # whoever comes later sees this one.
        if "address" in self._settled or time.monotonic() < self._alone_at:
            return
        at = own.partition(" ")[2]
        other_owners = [owner for owner in await leases.replicas() if owner != own]
        self._settled.add("address")
        if any(owner.partition(" ")[2] == at for owner in other_owners):
            _log.warning(
                "another replica also claims the address %r; give each its own with --advertise, or http.advertise", at
            )

    async def _check_files(self, leases: Leases) -> None:
        # As a turn that all who have the same folder share, and the others cannot get.
        if self._files and "files" not in self._settled and not await leases.take_turn(_FILES, self._files):
            self._settled.add("files")
            _log.error("other replicas store session files elsewhere; name one shared folder in http.files")

    async def _check_key(self) -> None:
        """Restore the key of a server that lost its data: whoever starts next must not make another."""
        if not self._key_kept_as:
            return
        match await self._ledger.agree(self._key_kept_as, self._key):
            case "put back":
                _log.error(
                    "the ledger's server lost its data; paused executions are gone, and the key for tokens was restored"
                )
            case "another" | "gone" if "key" not in self._settled:
                self._settled.add("key")
                _log.error("the ledger's server lost its data, including the key for tokens; restart all replicas")


# ----------------------------------------------------------------------------------------------------
# Owners of executions on one machine: a locked file for each, and the executions that clients come back for.
#
# The kernel releases a lock when its process ends. So a file that nobody has locked belongs to an execution whose
# process is gone, and the next process that locks it continues the execution from its record.

_E = TypeVar("_E", bound=WaitableExecution)
_MOST_PARKED: Final = 100
_MOST_UNREAD: Final = 100
"""Executions that have ended and that nobody has waited for since; of older ones the record is left."""


class ExecutionLocks:
    """Locks of the executions that this process owns.

    Args:
        folder: Shared by all processes with the same ledger; `None` where no other process knows the executions.
        is_required: Raise an `OSError` where locks are not available. Otherwise an execution runs without one, and
            cannot be continued after a restart.
    """

    def __init__(self, folder: Path | None, *, is_required: bool = False) -> None:
        self._folder = folder
        self._is_required = is_required
        self._fds: dict[str, int] = {}

    @property
    def are_shared(self) -> bool:
        """Whether another process can take over what this one drops."""
        return self._folder is not None

    def take(self, execution_id: str, *, is_new: bool, data: bytes = b"") -> bool:
        """Become the owner, unless another live process is; an execution that is not new must have had one before.

        Args:
            execution_id: Of the execution.
            is_new: It starts here.
            data: For `read`: what another process needs to continue it.
        """
        if execution_id in self._fds:
            return True
        if self._folder is None:
            return is_new
        try:
            if is_new:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = open_locked(self._path(execution_id), create=is_new)
        except OSError:
            if self._is_required and is_new:
                raise
            return is_new
        if fd is None:
            return False
        self._fds[execution_id] = fd
        os.write(fd, data)
        return True

    def drop(self, execution_id: str, *, has_ended: bool) -> None:
        """Let other processes have it, or forget it because it has ended."""
        fd = self._fds.pop(execution_id, None)
        if fd is None:
            return
        if sys.platform == "win32":  # deletes no file that is open
            os.close(fd)
        if has_ended:
            self.forget(execution_id)
        if sys.platform != "win32":
            os.close(fd)

    def close(self) -> None:
        """Drop all: this process stops, and another may continue them."""
        for execution_id in tuple(self._fds):
            self.drop(execution_id, has_ended=False)

    # executions of any process

    def is_orphaned(self, execution_id: str) -> bool:
        """Whether it has not ended and its process is gone."""
        return self._folder is not None and has_lost_owner(self._path(execution_id))

    def exists(self, execution_id: str) -> bool:
        """Whether it was started with a lock and has not ended."""
        return self._folder is not None and self._path(execution_id).exists()

    def read(self, execution_id: str) -> bytes:
        return self._path(execution_id).read_bytes()

    def forget(self, execution_id: str) -> None:
        if self._folder is not None:
            with suppress(OSError):
                self._path(execution_id).unlink()

    def _path(self, execution_id: str) -> Path:
        assert self._folder is not None
        # An id may be anything that somebody wrote on a command line.
        name = "".join(letter if letter.isalnum() else "_" for letter in execution_id)[:64]
        return self._folder / name


class ClientExecutions(Generic[_E]):
    """Executions of this process that clients come back for. The durable ones among them outlive it.

    Args:
        locks: Of those that a client knows by their execution id.
        spawn: Runs work in the background.
    """

    def __init__(self, locks: ExecutionLocks, spawn: Callable[[Coroutine[object, None, object]], object]) -> None:
        self.locks = locks
        self._spawn = spawn
        self._parked: dict[str, tuple[_E, asyncio.TimerHandle]] = {}
        self._known: dict[str, _E] = {}
        """Executions whose clients know the execution id, by that."""
        self.live: dict[str, _E] = {}
        """All, by their own ids."""

    def find(self, execution_id: str) -> _E | None:
        return self._known.get(execution_id)

    def keep(self, execution: _E) -> None:
        """Wait for its client, which knows the execution id."""
        self.live[execution.id] = self._known[execution.execution_id] = execution
        self.locks.take(execution.execution_id, is_new=True)
        unread = [candidate for candidate in self._known.values() if candidate.is_done]
        for old in unread[: max(0, len(unread) - _MOST_UNREAD)]:
            self.forget(old)

    def park(self, execution: _E, seconds: float) -> None:
        """Wait for its client's answer; without one it is cancelled when the time is up or others need the room."""
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, execution)
        self._parked[execution.id] = execution, timer
        while len(self._parked) > _MOST_PARKED:
            self._expire(next(iter(self._parked.values()))[0])

    def unpark(self, id: str) -> _E | None:
        """The execution whose client has answered, if it is still here."""
        execution, timer = self._parked.pop(id, (None, None))
        if timer is not None:
            timer.cancel()
        return execution if id in self.live else None

    def forget(self, execution: _E) -> None:
        self.live.pop(execution.id, None)
        if self._known.pop(execution.execution_id, None) is not None:
            self.locks.drop(execution.execution_id, has_ended=True)

    async def close(self) -> None:
        """End the executions, except those that the next process can continue; their locks are closed separately."""
        for _, timer in self._parked.values():
            timer.cancel()
        await asyncio.gather(*(self._leave(execution) for execution in tuple(self.live.values())))

    async def _leave(self, execution: _E) -> None:
        # A client that knows the execution id comes back for it, to whichever process it meets.
        is_known = execution.execution_id in self._known
        if is_known and execution.is_durable and self.locks.are_shared and not execution.is_done:
            await execution.release()
            self.live.pop(execution.id, None)
        else:
            await execution.cancel()
            self.forget(execution)

    def _expire(self, execution: _E) -> None:
        self.unpark(execution.id)
        self.forget(execution)
        self._spawn(execution.cancel())
