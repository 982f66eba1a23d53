from collections.abc import Sequence

import pytest

from toolfold import ToolSpec
from toolfold.engines.process.pool import Pool
from toolfold.engines.process.zygote import Guest


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Programs are made ready while they are checked even where not all is quiet; the texts so far."""
    texts: list[str] = []
    tell = Guest.tell

    def noted(guest: Guest, text: str, tools: Sequence[ToolSpec]) -> None:
        texts.append(text)
        tell(guest, text, tools)

    monkeypatch.setattr(Guest, "tell", noted)
    monkeypatch.setattr(Pool, "_is_quiet", property(lambda pool: bool(pool._parked)))
    return texts
