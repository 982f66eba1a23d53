"""How much memory paused executions may hold, of one tenant and in all. Decides; acts through whoever asks."""

from __future__ import annotations

from dataclasses import dataclass

from toolfold.models import MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedLimits:
    """Of the guests of paused executions; beyond it the oldest end, and are replayed when they go on."""

    tenant_bytes: int = 512 * MIB
    total_bytes: int = 2048 * MIB


class PausedMemory:
    """What each paused execution holds, since its guest stands still."""

    def __init__(self, limits: PausedLimits) -> None:
        self._limits = limits
        self._held: dict[str, tuple[str, int]] = {}
        """Tenant and bytes by execution, the oldest first."""

    def add(self, execution_id: str, tenant: str, held_bytes: int) -> list[str]:
        """Executions that have to let go of their guests, now that this one stands still."""
        self._held[execution_id] = (tenant, held_bytes)
        leaving: list[str] = []
        while self._of(tenant) > self._limits.tenant_bytes:
            leaving.append(self._take_oldest(tenant))
        while sum(size for _, size in self._held.values()) > self._limits.total_bytes:
            largest = max({tenant for tenant, _ in self._held.values()}, key=self._of)
            leaving.append(self._take_oldest(largest))
        return leaving

    def remove(self, execution_id: str) -> None:
        """It goes on, or is gone."""
        self._held.pop(execution_id, None)

    def _of(self, tenant: str) -> int:
        return sum(size for owner, size in self._held.values() if owner == tenant)

    def _take_oldest(self, tenant: str) -> str:
        oldest = next(one for one, (owner, _) in self._held.items() if owner == tenant)
        del self._held[oldest]
        return oldest
