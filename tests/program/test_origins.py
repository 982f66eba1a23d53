"""Which tool's reply a failing line worked on."""

import pytest

from toolfold.models import ToolSpec
from toolfold.program.known_names import tools_behind

SPECS = {
    name: ToolSpec(name=name, python_name=name) for name in ("get_user", "list_orders", "search", "mcp__crm__find")
}


@pytest.mark.parametrize(
    ("text", "line", "at", "tools"),
    [
        ("u = await get_user(id=1)\nprint(u['x'])", 2, "x", ("get_user",)),
        ("print((await get_user(id=1))['x'])", 1, "x", ("get_user",)),
        ("print(tools.get_user(id=1)['x'])", 1, "x", ("get_user",)),
        ("us = await asyncio.gather(*[tools.async_get_user(id=i) for i in range(3)])\nus[0]['x']", 2, "x", ("get_user",)),
        ("for o in (await list_orders())['orders']:\n    print(o['total'])", 2, "total", ("list_orders",)),
        ("def f(row):\n    return row['x']\nu = await get_user()\nf(u)", 2, "x", ("get_user",)),
        ("async def load(i):\n    return await get_user(id=i)\nu = await load(1)\nu['x']", 4, "x", ("get_user",)),
        ("rows = await list_orders()\nrows.sort(key=lambda r: r['x'])", 2, "x", ("list_orders",)),
        ("found = []\nfound.append(await search(q=1))\nprint(found[0].name)", 3, "name", ("search",)),
        ("a = await get_user()\nb = await search()\nprint(a['k'] + b['x'])", 3, "x", ("search",)),
        ("a = await get_user()\nb = await search()\nprint(a + b)", 3, "", ("get_user", "search")),
        ("from tools.crm import mcp__crm__find as find\nx = 1\nprint({}['a'])", 3, "a", ()),
        ("x = {'a': 1}\nprint(x['b'])", 2, "b", ()),
        ("x = x['a']\n", 1, "a", ()),
        ("not python at all(", 1, "", ()),
    ],
)  # fmt: skip
def test_a_line_is_followed_back_to_the_tools_whose_replies_it_takes_apart(
    text: str, line: int, at: str, tools: tuple[str, ...]
) -> None:
    assert tools_behind(text, line, SPECS, at=at) == tools


def test_a_program_that_nests_too_deeply_is_not_followed() -> None:
    assert tools_behind("x = " + "-" * 100_000 + "1", 1, SPECS) == ()
