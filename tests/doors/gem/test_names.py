"""What a program's text says of the tools it needs."""

import pytest

from toolfold.doors.callback.names import ListedTool, granted, meant, mentioned
from toolfold_guest.names import ANY_TOOL


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("tools.a(x=1)\nawait tools.async_b()", {"a", "b"}),
        ("import tools as t\nt.a()", {"a"}),
        ("from tools import a, b as c\nawait c()", {"a", "b"}),
        ("getattr(tools, 'a')(x=1)\nhasattr(tools, 'b')", {"a", "b"}),
        ("for name in ['a', 'b c', 'd']: getattr(tools, name)()", {"a", "d"}),
        ("await a(x=1)\nawait asyncio.gather(*[b(i) for i in [1]], c())", {"a", "b", "c"}),
        ("async def a(): ...\nawait a()\nawait asyncio.sleep(0)\nprint(len([]))", set()),
        ("helper()\nother.tools.a()", set()),
        ("tools.call_tool('a-b', x=1)", {"call_tool"}),
        ("tools.ToolError, tools.__name__", set()),
        ("tools.a(", set()),
    ],
)
def test_a_program_is_granted_the_tools_that_its_text_names(text: str, names: set[str]) -> None:
    assert mentioned(text) == names


def test_listed_tools_are_the_whole_grant() -> None:
    listed = ["read-file", ListedTool(name="print", parameters={"type": "object", "properties": {"x": {}}})]

    specs = granted("tools.other()", listed, taken=())

    assert {spec.name: (spec.python_name, spec.parameters) for spec in specs} == {
        "read-file": ("read_file", ()),
        "print": ("print_tool", ("x",)),
    }


def test_tools_of_the_child_keep_their_names() -> None:
    assert granted("tools.a()\ntools.b()", None, taken={"a"})[0].name == "b"
    assert granted("", ["a", "b"], taken={"a"})[0].name == "b"


def test_call_tool_means_the_tool_that_it_names() -> None:
    generic, _ = granted("tools.call_tool('x')", None, ())
    (own,) = granted("", ["call_tool"], ())

    assert meant(generic, {"tool_name": "a-b", "name": "n"}) == ("a-b", {"name": "n"})
    assert meant(own, {"tool_name": "a-b"}) == ("call_tool", {"tool_name": "a-b"})


def test_one_tool_stands_for_every_name_that_the_text_does_not_spell_out() -> None:
    (any_tool,) = granted("", None, ())

    assert any_tool.python_name == ANY_TOOL
    assert meant(any_tool, {"tool_name": "a", "arguments": {"tool_name": 1}}) == ("a", {"tool_name": 1})
