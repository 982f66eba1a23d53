"""How much all sessions of one tenant may keep together. Counts; the store does the keeping.

Sessions of tenants are called `tenant/session`; those without a tenant count together. What other processes keep in the
same folder is counted when it is measured, which the sweep does.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from toolfold.sessions.stores import Change, Store


class QuotaExceeded(Exception):
    """A tenant's sessions would have more bytes than they may; nothing was changed."""


class Quota:
    """The bytes of each tenant in one store.

    Args:
        store: Where the files are.
        max_bytes: Of each tenant.
    """

    def __init__(self, store: Store, max_bytes: int) -> None:
        self._store = store
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._is_measured = False
        self._sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def measure(self) -> None:
        """Count anew, from what is there."""
        sizes: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for session, size in self._store.sizes().items():
            sizes[_tenant_of(session)][session] = size
        with self._lock:
            self._sizes, self._is_measured = sizes, True

    def merge(self, session: str, change: Change, *, max_bytes: int) -> None:
        """The store's own, where the tenant has room for it.

        Raises:
            QuotaExceeded: It has not.
            TooLarge: As the store says.
        """
        if change.put:
            self._check(session, sum(file.size for file in change.put), {file.name for file in change.put})
        self._store.merge(session, change, max_bytes=max_bytes)
        if change.put or change.remove:
            size = sum(file.size for file in self._store.listed(session))
            with self._lock:
                self._sizes[_tenant_of(session)][session] = size

    def _check(self, session: str, added: int, replaced: set[str]) -> None:
        if not self._is_measured:
            self.measure()
        kept = sum(file.size for file in self._store.listed(session) if file.name not in replaced)
        with self._lock:
            others = sum(size for one, size in self._sizes[_tenant_of(session)].items() if one != session)
        if others + kept + added > self._max_bytes:
            raise QuotaExceeded(
                f"the files of all sessions would take {others + kept + added} bytes, more than {self._max_bytes}"
            )


def _tenant_of(session: str) -> str:
    return session.rpartition("/")[0]
