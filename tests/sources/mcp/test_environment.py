"""Which variables a stdio server gets."""

import os

import pytest

from toolfold.config import parse_config
from toolfold.config.build import bridge_servers
from toolfold.sources.mcp.transports import environment

CONFIG = """
servers:
  - {name: one, command: cat, env: {MINE: "${OF_ONE}"}}
  - {name: two, command: cat}
  - {name: bare, command: cat, inherit_env: false, env: {GIVEN: x}}
http: {keys: {a: "${OF_HTTP}"}}
tools: {folders: [{name: f, path: "${HOME}"}]}
"""
OURS = {
    "HOME": "/home/me", "PATH": "/bin", "OTHER": "o", "OF_ONE": "1", "OF_HTTP": "2", "TOOLFOLD_LEDGER_KEY": "3",
}  # fmt: skip


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", dict(OURS))


def test_a_server_gets_the_users_variables_but_none_that_are_ours_or_meant_for_others() -> None:
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    one, two, bare = (environment(server) for server in bridge_servers(parse_config(CONFIG)))

    assert one == {"HOME": "/home/me", "PATH": "/bin", "OTHER": "o", "OF_ONE": "1", "MINE": "1"}
    assert two == {"HOME": "/home/me", "PATH": "/bin", "OTHER": "o"}
    assert bare == {"HOME": "/home/me", "PATH": "/bin", "GIVEN": "x"}
