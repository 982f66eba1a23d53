from collections.abc import Sequence

import pytest

from toolfold import Limits, ToolSpec
from toolfold.engines.process.pool import Pool
from toolfold.engines.process.zygote import Guest


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every program is made ready while it is checked, not only where all is quiet; the texts so far."""
    texts: list[str] = []

    def expect(pool: Pool, text: str, tools: Sequence[ToolSpec], _: Limits) -> None:
        guests: list[Guest] = list(pool._parked)[:1]
        for guest in guests:
            if not guest.is_awake:
                texts.append(text)
                guest.expect(text, tools)

    monkeypatch.setattr(Pool, "expect", expect)
    return texts
