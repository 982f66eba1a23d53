"""Patterns of a config that mean no tool, as each interface that reads a config tells of them."""

from pathlib import Path

import pytest

from toolfold.config import Config, load_config
from toolfold.interfaces.http.server_setup import open_app
from toolfold.interfaces.mcp.server_setup import create_mcp_server

TEXT = """
tools:
  ask: [pay_*, delete_usr]
  block: [Bash, forbiden]
  commands:
    - {name: delete_user, argv: ["true"]}
    - {name: forbidden, argv: ["true"]}
policies:
  delete_*: {max_calls: 2}
  deletes_user: {timeout_seconds: 9}
http: {files: files}
ledger: {where: memory}
"""
LINES = [
    "toolfold.yaml:4: tools.block[1]: no tool matches 'forbiden'; did you mean 'forbidden'?",
    "toolfold.yaml:3: tools.ask[0]: no tool matches 'pay_*'; it has no effect",
    "toolfold.yaml:3: tools.ask[1]: no tool matches 'delete_usr'; did you mean 'delete_user'?",
    "toolfold.yaml:10: policies.deletes_user: no tool matches 'deletes_user'; did you mean 'delete_user'?",
]


async def http(config: Config) -> None:
    _, ledger = await open_app(config)
    await ledger.close()


async def mcp(config: Config) -> None:
    create_mcp_server(config)


@pytest.mark.parametrize("interface", [http, mcp])
async def test_an_interface_warns_of_each_pattern_that_matches_no_tool(
    interface, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("toolfold.yaml").write_text(TEXT)

    await interface(load_config(Path("toolfold.yaml")))

    assert [record.message for record in caplog.records if record.name == "toolfold.config.build"] == LINES
