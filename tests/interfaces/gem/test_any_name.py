"""Where the parent lists no tools, every attribute of `tools` is one: the executor is asked, and has the last word."""

import pytest

from tests.interfaces.gem.conftest import Programs


def echo(name, args, call_id):
    return True, False, f"{name}:{sorted(args.items())}", name, call_id


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("t = tools\nresult = t.gamma(x=1)", "gamma:[('x', 1)]"),
        ("def go(api):\n    return api.delta(y=2)\n\nresult = go(tools)", "delta:[('y', 2)]"),
        ("result = getattr(tools, 'al' + 'pha')(z=3)", "alpha:[('z', 3)]"),
        ("from functools import partial\nresult = partial(getattr(tools, 'al' + 'pha'), z=3)()", "alpha:[('z', 3)]"),
        ("import importlib\nresult = importlib.import_module('tools').beta({'x': 1})", "beta:[('x', 1)]"),
        ("t = tools\nresult = await t.async_gamma(x=1)", "gamma:[('x', 1)]"),
        ("t = tools\nresult = t.gamma(tool_name='a', arguments=[1])", "gamma:[('arguments', [1]), ('tool_name', 'a')]"),
        ("class Agent:\n    def __init__(self, api): self.api = api\n\nresult = Agent(tools).api.call()", "call:[]"),
    ],
)
def test_a_tool_that_the_text_does_not_spell_out_reaches_the_executor(
    programs: Programs, code: str, value: str
) -> None:
    answer = programs.run(code, echo)

    assert (answer["error"], answer["return_value"]) == (None, value)
    assert [call["tool_name"] for call in answer["tool_calls"]] == [value.partition(":")[0]]


def test_what_python_itself_looks_for_on_a_module_is_no_tool(programs: Programs) -> None:
    answer = programs.run(
        "import copy, inspect\nt = tools\nresult = [hasattr(t, '__wrapped__'), hasattr(t, 'gamma'), dir(t), "
        "t.gamma.__name__, inspect.ismodule(t)]",
        echo,
    )

    assert answer["return_value"] == [False, True, ["search_tools"], "gamma", True]
    assert answer["tool_calls"] == []


def test_an_executor_that_knows_no_such_tool_is_believed(programs: Programs) -> None:
    answer = programs.run(
        "t = tools\nt.gamma()", lambda name, _, call_id: (False, True, f"Tool not found: {name}", name, call_id)
    )

    assert (answer["error"]["type"], answer["error"]["message"]) == (
        "ToolError",
        "no tool 'gamma'; the tool executor says: Tool not found: gamma",
    )


def test_a_listed_grant_stays_closed(programs: Programs) -> None:
    answer = programs.run("t = tools\nt.gamma()", echo, _tools_available=["alpha"])

    assert (answer["error"]["type"], answer["error"]["message"]) == ("AttributeError", "no tool 'gamma'")
    assert answer["tool_calls"] == []
