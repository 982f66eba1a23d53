"""`StubGenerator` and `MCPClientShim`: parts of the guide that work without an executor."""

from pathlib import Path

import pytest

from toolfold.errors import ToolError, ToolNotFound, UsageError
from toolfold.orchestrator import MCPClientShim, StubGenerator, ToolCatalog, ToolDefinition, ToolParameter, tool_map
from toolfold.tools.router_steps import Breaker, Retry, wrappers


def test_a_stub_generator_writes_the_tree_of_a_catalog(tmp_path: Path) -> None:
    catalog = ToolCatalog()
    city = ToolParameter(name="city", type="string", required=True)
    catalog.add_tool(ToolDefinition(name="weather", domain="sky", description="Now.", parameters=[city]))

    generator = StubGenerator(tmp_path / "stubs")
    files = generator.generate(catalog)

    assert sorted(str(file.relative_to(tmp_path)) for file in files) == [
        "stubs/tools/__init__.py",
        "stubs/tools/sky/__init__.py",
        "stubs/tools/sky/weather.py",
    ]
    written = (tmp_path / "stubs/tools/sky/weather.py").read_text()
    assert "async def weather(*, city: str) -> Any:" in written.splitlines()
    assert generator.source(catalog.tools["weather"]) == written


async def test_a_client_shim_tries_again_remembers_keys_and_leaves_a_broken_tool_alone() -> None:
    calls: list[str] = []

    async def flaky(payload: dict[str, str]) -> str:
        calls.append(payload["x"])
        if payload["x"] == "bad" or len(calls) == 1:
            raise ConnectionError("lost")
        return payload["x"]

    steps = wrappers(retry=Retry(attempts=2, first_wait_seconds=0.001), breaker=Breaker(failures=1))
    shim = MCPClientShim({}, steps=steps)
    shim.register_worker("flaky", flaky)
    first = await shim.call_tool("flaky", {"x": "a"}, idempotency_key="k")
    again = await shim.call_tool("flaky", {"x": "a"}, idempotency_key="k")
    with pytest.raises(ToolError, match="'flaky' failed: lost"):
        await shim.call_tool("flaky", {"x": "bad"})
    with pytest.raises(ToolError, match="'flaky' failed 1 times in a row"):
        await shim.call_tool("flaky", {"x": "b"})

    assert (first, again, calls) == ("a", "a", ["a", "a", "bad", "bad"])


async def test_a_client_shim_has_the_shared_workers_unless_it_is_given_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tool_map, "echo_of_shim", lambda payload: payload)

    assert await MCPClientShim().call_tool("echo_of_shim", {"a": 1}) == {"a": 1}
    with pytest.raises(ToolNotFound) as missing:
        await MCPClientShim({"echo": print}).call_tool("ecko")
    with pytest.raises(UsageError) as wrong:
        MCPClientShim({}).register_worker("a", 1)  # type: ignore[arg-type]  # what a user may do

    assert [str(missing.value), str(wrong.value)] == [
        "no tool 'ecko'; did you mean 'echo'?",
        "the worker for 'a' is not callable, got int",
    ]
