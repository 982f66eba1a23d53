"""The bridge remembers tools in the user's state folder; each test has its own."""

import pytest


@pytest.fixture(autouse=True)
def own_state(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
