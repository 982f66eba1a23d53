from collections.abc import Sequence

import pytest

from toolfold.engines.process import optimizations
from toolfold.engines.process.guest import Guest
from toolfold.engines.process.zygote import Pool
from toolfold.models import ToolSpec


@pytest.fixture
def told_guests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Guest, str]]:
    """The guests that were told of a program while it was being checked, and its text."""
    told: list[tuple[Guest, str]] = []
    make = optimizations.PreparedGuest.__init__

    def noted(
        self: optimizations.PreparedGuest, pool: Pool, guest: Guest, text: str, tools: Sequence[ToolSpec]
    ) -> None:
        told.append((guest, text))
        make(self, pool, guest, text, tools)

    monkeypatch.setattr(optimizations.PreparedGuest, "__init__", noted)
    return told


@pytest.fixture
def always_told(told_guests: list[tuple[Guest, str]], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Guest, str]]:
    """As `told_guests`; programs are made ready while they are checked even where not all is quiet."""
    monkeypatch.setattr(Pool, "is_quiet", property(lambda pool: bool(pool._parked)))
    return told_guests
