"""How much all sessions of one tenant may keep together. Counts; the store does the keeping.

Sessions of tenants are called `tenant/session`; those without a tenant count together. What other processes keep in the
same folder is counted when it is measured, which the sweep does.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict

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
        self._coming: Counter[str] = Counter()
        """Bytes that were let in and are not counted yet, by tenant: uploads at the same time see each other's."""

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
        tenant, added = _tenant_of(session), sum(file.size for file in change.put)
        if change.put:
            self._let_in(session, added, {file.name for file in change.put})
        try:
            self._store.merge(session, change, max_bytes=max_bytes)
            listed = self._store.listed(session) if change.put or change.remove else None
            with self._lock:
                if listed is not None:
                    self._sizes[tenant][session] = sum(file.size for file in listed)
        finally:
            with self._lock:
                self._coming[tenant] -= added
                if not self._coming[tenant]:
                    del self._coming[tenant]

    def _let_in(self, session: str, added: int, replaced: set[str]) -> None:
        if not self._is_measured:
            self.measure()
        kept = sum(file.size for file in self._store.listed(session) if file.name not in replaced)
        tenant = _tenant_of(session)
        with self._lock:
            others = sum(size for one, size in self._sizes[tenant].items() if one != session) + self._coming[tenant]
            size = others + kept + added
            if size > self._max_bytes:
                raise QuotaExceeded(f"the files of all sessions would take {size} bytes, more than {self._max_bytes}")
            self._coming[tenant] += added


def _tenant_of(session: str) -> str:
    return session.rpartition("/")[0]
