"""Which execution a request belongs to, by the id that a cancel would name."""

from __future__ import annotations

from typing import Final

from toolfold.doors.http.held import Held

MAX_REQUESTS: Final = 100
"""Of one execution; a client that sends a continuation more often can cancel by its latest ids."""


class Requests:
    """The ids of all requests whose executions are held here."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Held] = {}

    def add(self, held: Held, request_id: str) -> None:
        """A request of this execution came; an empty id is none."""
        if not request_id or held.is_over or request_id in held.request_ids:
            return
        held.request_ids.append(request_id)
        self._held[held.tenant, request_id] = held
        if len(held.request_ids) > MAX_REQUESTS:
            self._drop(held, held.request_ids.pop(0))

    def find(self, tenant: str, request_id: str) -> Held | None:
        """The execution of a request; the same id of another tenant is another."""
        return self._held.get((tenant, request_id))

    def forget(self, held: Held) -> None:
        """It is over, or another process has it."""
        for request_id in held.request_ids:
            self._drop(held, request_id)
        held.request_ids.clear()

    def _drop(self, held: Held, request_id: str) -> None:
        if self._held.get((held.tenant, request_id)) is held:
            del self._held[held.tenant, request_id]
