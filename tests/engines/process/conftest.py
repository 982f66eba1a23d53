import marshal

import pytest

from toolfold.engines.process import speed
from toolfold.engines.process.guest import Guest
from toolfold.engines.process.zygote import Pool
from toolfold_guest.shared.wire import HEADER


@pytest.fixture
def told_guests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Guest, str]]:
    """The guests that were told of a program while it was being checked, and its text."""
    told: list[tuple[Guest, str]] = []
    tell = speed._tell

    def noted(guest: Guest, frame: bytes) -> bool:
        _, text, _ = marshal.loads(frame[HEADER.size :])
        told.append((guest, text))
        return tell(guest, frame)

    monkeypatch.setattr(speed, "_tell", noted)
    return told


@pytest.fixture
def always_told(told_guests: list[tuple[Guest, str]], monkeypatch: pytest.MonkeyPatch) -> list[tuple[Guest, str]]:
    """As `told_guests`; programs are made ready while they are checked even where not all is quiet."""
    monkeypatch.setattr(Pool, "is_quiet", property(lambda pool: bool(pool._parked)))
    return told_guests
