import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from inline_snapshot import snapshot

from toolfold.errors import UsageError
from toolfold.interfaces.cli.commands.tools import tools_app

TOOLS = '''
import toolfold
from toolfold.models import ToolSpec
from toolfold.tools import Tool

print("imported")

async def call(arguments):
    return None

@toolfold.tool(domain="hr")
def get_users(department: str, limit: int = 10) -> list[str]:
    """Ids of the people in one department."""
    return []

@toolfold.tool
def price(ticker: str) -> float:
    """The last price of one share."""
    return 1.0
'''
ODD = """
def odd(name, **more):
    return Tool(spec=ToolSpec(name=name, python_name="", **more), call=call)

a = odd("class", description="x" * 2_000_000)
b = odd("日本", input_schema={"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}})
c = odd("a-b", input_schema={"type": 12, "properties": [], "required": "all"})
d = odd("a_b", input_schema={"properties": {"n": {"$ref": "#"}}})
"""

Tools = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tools:
    """`toolfold tools ARGUMENTS` in a folder with two tools files: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    Path("tools.py").write_text(TOOLS, encoding="utf-8")
    Path("odd.py").write_text(TOOLS + ODD, encoding="utf-8")
    Path("twice.py").write_text(TOOLS + ODD + "\ne = odd('price')\n", encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = typer.main.get_command(tools_app).main(args=list(arguments), standalone_mode=False)
        return (int(code or 0), *capsys.readouterr())

    return run


def test_list_shows_one_line_per_tool_and_nothing_that_the_file_prints(tools: Tools) -> None:
    assert tools("list", "--tools", "tools.py") == (
        0,
        "get_users  Ids of the people in one department.\nprice      The last price of one share.\n",
        "imported\n",
    )


def test_list_prints_signatures_on_request(tools: Tools) -> None:
    _, shown, _ = tools("list", "--tools", "tools.py", "--detail", "signature")

    assert [line for line in shown.splitlines() if line.startswith(("#", "async"))] == [
        "# get_users",
        "async def get_users(*, department: str, limit: int = 10) -> list[str]:",
        "# price",
        "async def price(*, ticker: str) -> float:",
    ]


def test_search_prints_what_fits_best_first(tools: Tools) -> None:
    code, shown, _ = tools("search", "people of a departmnt", "--tools", "tools.py", "--detail", "signature")

    assert (code, shown) == (0, snapshot('''\
# get_users
async def get_users(*, department: str, limit: int = 10) -> list[str]:
    """Ids of the people in one department."""

'''))  # fmt: skip


def test_search_for_what_is_not_there_prints_nothing_and_exits_1(tools: Tools) -> None:
    assert tools("search", "quantum", "--tools", "tools.py")[:2] == (1, "")


@pytest.mark.parametrize("detail", ["name", "signature", "full"])
def test_search_prints_json_on_request(tools: Tools, detail: str) -> None:
    keys = {
        "name": ["name", "description"],
        "signature": ["name", "description", "signature"],
        "full": ["name", "description", "signature", "tool", "input_schema", "output_schema", "read_only",
                 "destructive", "source"],
    }  # fmt: skip

    _, shown, _ = tools("search", "price", "--tools", "tools.py", "--detail", detail, "--json", "--limit", "1")

    assert [list(one) for one in json.loads(shown)] == [keys[detail]]


def test_full_detail_as_text_ends_in_the_schemas(tools: Tools) -> None:
    _, shown, _ = tools("search", "price", "--tools", "tools.py", "--detail", "full", "--limit", "1")

    assert json.loads(shown.partition("\n\n")[2])["tool"] == "price"


def test_stubs_writes_one_file_per_tool(tools: Tools) -> None:
    code, shown, _ = tools("stubs", "out", "--tools", "tools.py")

    assert (code, shown) == (0, "2 tools in 4 files below out/tools\n")
    assert sorted(map(str, Path("out").rglob("*.py"))) == [
        "out/tools/__init__.py", "out/tools/hr/__init__.py", "out/tools/hr/get_users.py", "out/tools/price.py",
    ]  # fmt: skip


@pytest.mark.parametrize("command", [["list"], ["search", "price"], ["stubs", "out"]])
def test_odd_tools_work(tools: Tools, command: list[str]) -> None:
    code, _, errors = tools(*command, "--tools", "odd.py")

    assert (code, errors) == (0, "imported\n")


def test_odd_names_become_names_that_python_takes(tools: Tools) -> None:
    _, shown, _ = tools("list", "--tools", "odd.py", "--json")

    assert [one["name"] for one in json.loads(shown)] == snapshot(
        ["get_users", "price", "class_tool", "tool_cf2abf", "a_b_d44362", "a_b"]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list"], "no tools to look at; name a file with --tools, as in --tools tools.py, or a --config"),
        (["list", "--tools", "none.py"], "no tools file 'none.py'; check the path"),
        (["list", "--tools", "twice.py"], "two tools are named 'price': one from function, one from function"),
        (
            ["stubs", "tools.py", "--tools", "tools.py"],
            "stubs cannot be written to 'tools.py': not a directory; name another folder",
        ),
    ],
)
def test_wrong_usage_is_one_line(tools: Tools, arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        tools(*arguments)

    assert str(raised.value) == message


LEARNABLE = '''
import toolfold

@toolfold.tool(read_only=True)
def get_user(id: int):
    """Get a user."""
    return {"id": id, "name": "Ada"}

@toolfold.tool
def delete_user(id: int):
    """Delete a user."""
'''


def test_learn_calls_a_tool_and_prints_what_it_returns_and_the_ledger_keeps_it(tools: Tools) -> None:
    Path("learnable.py").write_text(LEARNABLE)

    code, shown, _ = tools("learn", 'get_user={"id": 7}', "--tools", "learnable.py", "--ledger", "seen.sqlite")

    assert (code, shown) == (0, snapshot('''\
class GetUserReply(TypedDict):
    id: int
    name: str

async def get_user(*, id: int) -> GetUserReply:
    """Get a user.

    Returns: as seen in 2 replies
    """
'''))  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("delete_user", "tool 'delete_user' is not marked read-only, so it is not called; run a program that calls it"),
        ("get_usr", "no tool 'get_usr'; 'toolfold tools list' lists all tools"),
        ("get_user=[1]", """the arguments of 'get_user' must be a JSON object, as in get_user='{"id": 1}'"""),
    ],
)
def test_learn_calls_nothing_that_it_should_not(tools: Tools, asked: str, said: str) -> None:
    Path("learnable.py").write_text(LEARNABLE)

    with pytest.raises(UsageError) as caught:
        tools("learn", asked, "--tools", "learnable.py", "--ledger", "seen.sqlite")

    assert str(caught.value) == said


def test_without_a_command_the_tools_are_listed(tools: Tools) -> None:
    assert tools("--tools", "tools.py") == tools("list", "--tools", "tools.py")
    assert tools("--tools", "tools.py", "--json") == tools("list", "--tools", "tools.py", "--json")


def test_options_before_a_command_are_refused_instead_of_ignored(tools: Tools) -> None:
    with pytest.raises(UsageError) as told:
        tools("--tools", "tools.py", "search", "price")

    assert str(told.value) == "write the options after 'search', as in 'toolfold tools search --tools tools.py'"
