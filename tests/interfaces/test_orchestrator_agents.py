"""Agents behind `toolfold.orchestrator`, and the examples, which have one each of every kind of tool."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolfold
from examples.adding_new_tools.__main__ import serving_translator
from toolfold.errors import ToolError
from toolfold.orchestrator import (
    ProgrammaticToolExecutor,
    ToolCatalog,
    ToolDefinition,
    ToolParameter,
    call_tool,
    tool_map,
)

ROOT = Path(__file__).parents[2]
SOURCE = str(Path(toolfold.__file__).parents[1])


@pytest.fixture(autouse=True)
def unregistered() -> Iterator[None]:
    yield
    tool_map.clear()


def catalog_of(*definitions: ToolDefinition) -> ToolCatalog:
    catalog = ToolCatalog(source="test")
    for definition in definitions:
        catalog.add_tool(definition)
    return catalog


async def test_an_agent_is_asked_at_its_endpoint_by_programs_and_directly() -> None:
    async with serving_translator() as url:
        agent = ToolDefinition(name="translator", type="agent", domain="agents", url=url)
        async with ProgrammaticToolExecutor(catalog_of(agent)) as executor:
            result = await executor.execute("""
from tools.agents import translator
await asyncio.gather(translator(message="abc def"), translator("xyz"))
""")
            direct = await call_tool(server="agents", tool_name="translator", parameters={"message": "hello"})

    assert (result["result"], direct) == (["cba fed", "zyx"], "olleh")


async def test_a_worker_goes_before_the_endpoint_and_serves_an_agent_without_one() -> None:
    elsewhere = ToolDefinition(name="elsewhere", type="agent", url="http://127.0.0.1:9")
    local = ToolDefinition(
        name="local", type="agent", parameters=[ToolParameter(name="task", type="string", required=True)]
    )
    async with ProgrammaticToolExecutor(catalog_of(elsewhere, local)) as executor:
        executor.register_worker("elsewhere", lambda payload: ["mine", payload])
        executor.register_worker("local", lambda payload: ["local", payload])
        result = await executor.execute("[await elsewhere(message='a'), await local(task='b')]")

    assert result["result"] == [["mine", {"message": "a"}], ["local", {"task": "b"}]]


async def test_an_agent_that_is_down_is_a_tool_error() -> None:
    agent = ToolDefinition(name="gone", type="agent", url="http://127.0.0.1:9")
    async with ProgrammaticToolExecutor(catalog_of(agent)) as executor:
        with pytest.raises(ToolError) as caught:
            await executor.call_tool("gone", {"message": "x"})

    assert str(caught.value) == "'gone' failed: the agent cannot be reached: it shows no agent card"


def test_without_a2a_an_agent_says_what_to_install_and_all_else_works() -> None:
    script = """
import sys
sys.modules["a2a"] = None
import asyncio
from toolfold.orchestrator import *
catalog = ToolCatalog()
catalog.add_tool(ToolDefinition(name="agent", type="agent", url="http://localhost:9"))
executor = ProgrammaticToolExecutor(catalog)
try:
    asyncio.run(executor.call_tool("agent", {"message": "x"}))
except Exception as error:
    print(error)
"""

    done = subprocess.run(
        [sys.executable, "-c", script], env={"PYTHONPATH": SOURCE}, capture_output=True, text=True, check=True
    )

    assert done.stdout == (
        "'agent' failed: agent tools need the package 'a2a-sdk'; "
        "install the extra 'a2a' of toolfold: pip install 'toolfold[a2a]'\n"
    )


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        (
            "programmatic_execution",
            "Total expenses: $3570\n"
            "Over 300: ['Person 18', 'Person 19', 'Person 20']\n"
            "-- 21 tool calls, 0 failed, error: None\n"
            "Failed: 'get_expenses' failed: no user 'nobody'\n"
            "-- 1 tool calls, 1 failed, error: None\n",
        ),
        (
            "adding_new_tools",
            "Warmest is Cairo with 26…\ntsemraW si oriaC htiw …62\n-- 5 tool calls, error: None\n",
        ),
    ],
)
@pytest.mark.long
def test_the_examples_run(name: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name)],
        env={"PYTHONPATH": SOURCE, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == (printed, "")


@pytest.mark.long
def test_a_type_checker_accepts_the_stubs(tmp_path: Path) -> None:
    item = {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}
    order = ToolDefinition(
        name="order-items",
        domain="shop",
        description='Orders """all" of it\\',
        parameters=[
            ToolParameter(name="items", type="array", items=item, required=True, description="What to order."),
            ToolParameter(name="from", type="string", enum=["here", "there"]),
            ToolParameter(name="count", type="integer", default=1),
        ],
        output_schema={"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    )
    anything = ToolDefinition(name="anything", input_schema={"type": "object", "additionalProperties": True})
    ProgrammaticToolExecutor(catalog_of(order, anything), enable_stubs=True, stub_dir=tmp_path)
    # In place of the package: checking all of it anew would take most of a minute.
    (tmp_path / "types/toolfold").mkdir(parents=True)
    (tmp_path / "types/toolfold/__init__.pyi").touch()
    (tmp_path / "types/toolfold/orchestrator.pyi").write_text(
        "from typing import Any\nasync def call_tool(server: str, tool_name: str, parameters: dict[str, Any]) -> Any: ...\n"
    )
    (tmp_path / "use.py").write_text(
        "from tools.shop import order_items\n\n\n"
        "async def use() -> int:\n"
        '    return (await order_items(items=[{"sku": "a"}], from_="here"))["id"]\n'
    )

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "use.py", "tools"],
        cwd=tmp_path,
        env={"MYPYPATH": str(tmp_path / "types")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "Success: no issues found in 5 source files\n"


def test_stubs_with_odd_arguments_run(tmp_path: Path) -> None:
    odd = ToolDefinition(
        name="odd",
        parameters=[
            ToolParameter(name="from", type="string", required=True),
            ToolParameter(name="left-out", type="string"),
            ToolParameter(name="_parameters", type="integer", default=3),
        ],
    )
    ProgrammaticToolExecutor(catalog_of(odd), enable_stubs=True, stub_dir=tmp_path)
    script = """
import asyncio
from toolfold.orchestrator import tool_map
from tools import odd
tool_map["odd"] = lambda payload: payload
print(asyncio.run(odd(from_="x")), asyncio.run(odd(from_="x", left_out="y", _parameters=4)))
"""

    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": f"{SOURCE}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout, done.stderr) == (
        "{'from': 'x', '_parameters': 3} {'from': 'x', 'left-out': 'y', '_parameters': 4}\n",
        "",
    )
