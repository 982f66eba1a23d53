"""What a program's text says of the tools it needs."""

import pytest

from toolfold.program.known_names import mentioned_names


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
def test_the_tools_that_a_text_names_are_found(text: str, names: set[str]) -> None:
    assert mentioned_names(text) == names
