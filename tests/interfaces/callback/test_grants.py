"""Which of the parent's tools a program is granted."""

from toolfold.interfaces.callback.child_programs import ListedTool, grant_tools, resolve_call
from toolfold_guest.shared.reserved_names import ANY_TOOL


def test_listed_tools_are_the_whole_grant() -> None:
    listed = ["read-file", ListedTool(name="print", parameters={"type": "object", "properties": {"x": {}}})]

    specs = grant_tools("tools.other()", listed, reserved_names=())

    assert {spec.name: (spec.python_name, spec.parameters) for spec in specs} == {
        "read-file": ("read_file", ()),
        "print": ("print_tool", ("x",)),
    }


def test_tools_of_the_child_keep_their_names() -> None:
    assert grant_tools("tools.a()\ntools.b()", None, reserved_names={"a"})[0].name == "b"
    assert grant_tools("", ["a", "b"], reserved_names={"a"})[0].name == "b"


def test_call_tool_means_the_tool_that_it_names() -> None:
    generic, _ = grant_tools("tools.call_tool('x')", None, ())
    (own,) = grant_tools("", ["call_tool"], ())

    assert resolve_call(generic, {"tool_name": "a-b", "name": "n"}) == ("a-b", {"name": "n"})
    assert resolve_call(own, {"tool_name": "a-b"}) == ("call_tool", {"tool_name": "a-b"})


def test_one_tool_stands_for_every_name_that_the_text_does_not_spell_out() -> None:
    (any_tool,) = grant_tools("", None, ())

    assert any_tool.python_name == ANY_TOOL
    assert resolve_call(any_tool, {"tool_name": "a", "arguments": {"tool_name": 1}}) == ("a", {"tool_name": 1})
