"""What replicas must agree on, looked at with each beat: addresses, the folder of files, the key for tokens.

Each disagreement is logged once: it is the operator's to mend, and nothing here can.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from toolfold.ledger.redis.leases import Leases
from toolfold.ledger.redis.store import RedisLedger

_FILES: Final = "."
"""No session is called so: each has its tenant's name in front."""
_log: Final = logging.getLogger(__name__)


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
        """Whoever comes later may keep files elsewhere."""
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
            "another replica shares this ledger, and this one has no address where it could be reached; "
            "give each its own with --advertise, or http.advertise"
        )

    async def _tell_if_address_is_shared(self, leases: Leases, own: str) -> None:
        # Not at once: one that was killed at this address is listed until its lease has lapsed. And only once:
        # whoever comes later sees this one.
        if self._has_seen_others or time.monotonic() < self._alone_at:
            return
        at = own.partition(" ")[2]
        others = [owner for owner in await leases.replicas() if owner != own]
        self._has_seen_others = True
        if any(owner.partition(" ")[2] == at for owner in others):
            _log.warning(
                "another replica says that it is at %r, too; give each its own with --advertise, or http.advertise", at
            )

    async def _tell_if_files_differ(self, leases: Leases) -> None:
        # As a turn that all who have the same folder share, and the others cannot get.
        if self._files and not self._has_other_files and not await leases.take_turn(_FILES, self._files):
            self._has_other_files = True
            _log.error("other replicas keep the files of sessions elsewhere; name one shared folder in http.files")

    async def _agree_on_key(self) -> None:
        """A server that lost its data has no key for tokens: whoever starts next must not make another."""
        if not self._key_kept_as:
            return
        match await self._ledger.agree(self._key_kept_as, self._key):
            case "put back":
                _log.error(
                    "the ledger's server lost its data; paused executions are gone, the key for tokens is put back"
                )
            case "another" | "gone" if not self._has_lost_key:
                self._has_lost_key = True
                _log.error("the ledger's server lost its data, and the key for tokens with it; restart all replicas")
