"""Definitions that would replace a tool: left out where they call none, valid where they wrap one."""

import pytest

import toolfold
from toolfold import Runtime


@toolfold.tool
async def list_users(team: str, limit: int = 5) -> list[str]:
    """Ids of the people in one team."""
    return [f"{team}-{number}" for number in range(2)][:limit]


@toolfold.tool
async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


HINT = "line {}: left out the definition of 'list_users', which would replace the tool of that name and calls none"
LEFT_OUT = [
    ("async def list_users(team, limit=5):\n    return ['x']\nprint(await list_users('a'))", 1),
    ("def list_users(team):\n    return ['x']\nprint(list_users('a'))", 1),
    ('async def list_users(team: str) -> list:\n    """Docs."""\n    ...\n\nprint(await list_users(team=\'a\'))', 1),
    ("ROWS = {'a': ['x']}\nasync def list_users(team):\n    return ROWS[team]\nprint(await list_users('a'))", 2),
    (
        "import asyncio\nasync def list_users(team):\n    await asyncio.sleep(0)\n    return ['x']\n"
        "async def main():\n    print(await list_users('a'))\nasyncio.run(main())",
        2,
    ),
]
STAYS = [
    ("async def list_users(team):\n    return [u.upper() for u in await tools.list_users(team)]\n"
     "print(await list_users('a'))", "['A-0', 'A-1']\n"),
    ("raw = list_users\nasync def list_users(team):\n    return await raw(team)\nprint(await list_users('a'))",
     "['a-0', 'a-1']\n"),
    ("from tools import list_users as raw\nasync def list_users(team):\n    return await raw(team)\n"
     "print(await list_users('a'))", "['a-0', 'a-1']\n"),
    ("async def list_users(team):\n    return [await add(1, 2)]\nprint(await list_users('a'))", "[3]\n"),
    ("async def fetch(team):\n    return await tools.list_users(team)\nasync def list_users(team):\n"
     "    return await fetch(team)\nprint(await list_users('a'))", "['a-0', 'a-1']\n"),
    ("rows = await list_users('a')\nfirst = {row: 1 for row in rows}\ndef add(a, b):\n    return first[a] + b\n"
     "print(add('a-0', 2))", "3\n"),
    ("def add(rows, key):\n    return sum(row[key] for row in rows)\nprint(add([{'n': 4}], 'n'))", "4\n"),
    ("class Team:\n    def list_users(self, team):\n        return ['x']\nprint(Team().list_users('a'))", "['x']\n"),
    ("def go():\n    def list_users(team):\n        return ['x']\n    return list_users('a')\nprint(go())", "['x']\n"),
    ("def list_users(team):\n    yield team\nprint(list(list_users('a')))", "['a']\n"),
    ("def list_teams():\n    return ['x']\nprint(list_teams())", "['x']\n"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), LEFT_OUT)
async def test_a_definition_that_replaces_a_tool_and_calls_none_is_left_out(text: str, line: int) -> None:
    async with Runtime([list_users, add]) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.status, outcome.stdout, len(outcome.calls)) == ("finished", "['a-0', 'a-1']\n", 1)
    assert outcome.hints[0] == HINT.format(line)


@pytest.mark.parametrize(("text", "stdout"), STAYS)
async def test_a_wrapper_and_a_helper_of_the_same_name_stay(text: str, stdout: str) -> None:
    async with Runtime([list_users, add]) as runtime:
        outcome = await runtime.run(text)

    assert (outcome.status, outcome.stdout) == ("finished", stdout)
    assert [hint for hint in outcome.hints if "left out" in hint] == []
