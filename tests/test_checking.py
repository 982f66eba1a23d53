"""Checks of large texts: beside the host, within bounds, with the same verdict every time."""

import asyncio

import pytest

from toolfold import Runtime, check_runner
from toolfold.check_runner import LARGE_TEXT_CHARACTERS, LargeChecks
from toolfold.models import Limits, Problem, Program, ToolSpec
from toolfold.program import check

LIMITS = Limits()
DEEP = "x = " + "-" * 80 + "1\n"
MANY = "x = [" + "[], " * 200_000 + "]\n"


@pytest.fixture
def parsed_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that this process checked itself."""
    seen: list[str] = []
    plain = check_runner.Checker.check

    def noted(self: object, text: str, **options: object) -> object:
        seen.append(text)
        return plain(self, text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(check_runner.Checker, "check", noted)
    return seen


async def test_a_large_text_is_not_parsed_in_the_host(parsed_here: list[str]) -> None:
    text = "# " + "x" * LARGE_TEXT_CHARACTERS + "\n6 * 7"
    async with Runtime() as runtime:
        outcome = await runtime.run(text)

    assert (outcome.status, outcome.value, parsed_here) == ("finished", 42, [])


@pytest.mark.parametrize(
    "text",
    [
        "import json\nprint(pd.DataFrame())\n" + "# x\n" * 20_000,
        "await prise(ticker=1)\n" + "# x\n" * 20_000,
        "x = (\n" + "# x\n" * 20_000,
        "  x = 1\n" + "  # x\n" * 20_000,
    ],
)
async def test_the_verdict_is_that_of_the_check_itself(text: str) -> None:
    tools = [ToolSpec(name="price", python_name="price", input_schema={"type": "object", "properties": {"ticker": {}}})]

    found = await LargeChecks().check(text, tools, limits=LIMITS, known_names=frozenset())

    assert found == check(text, tools)


async def test_checks_at_the_same_time_do_not_change_each_others_verdict() -> None:
    checks = LargeChecks()

    found = await asyncio.gather(
        *[checks.check(DEEP * 500 + MANY, [], limits=LIMITS, known_names=frozenset()) for _ in range(3)]
    )

    assert [type(one) for one in found] == [Program] * 3


async def test_a_check_that_has_used_up_its_time_is_a_problem_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_runner, "_WALL_SECONDS", 0.0)

    found = await LargeChecks().check(MANY, [], limits=LIMITS, known_names=frozenset())

    assert isinstance(found, Problem)
    assert found.kind == "too_large"


async def test_a_text_beyond_its_limit_costs_nothing(parsed_here: list[str]) -> None:
    found = await LargeChecks().check("#" * 2000, [], limits=Limits(program_bytes=1000), known_names=frozenset())

    assert isinstance(found, Problem)
    assert found.kind == "too_large"


COSTLY = "print(1)\n" * 60_000
HONEST = "".join(f"row_{n} = {{'name': 'item {n}', 'value': {n} * 2}}\n" for n in range(1000)) + "row_7"


async def test_a_program_does_not_wait_behind_costly_texts_of_other_tenants() -> None:
    async with Runtime() as runtime:
        costly = [asyncio.create_task(runtime.check(COSTLY, tenant=name)) for name in ("a", "b") for _ in range(6)]
        await asyncio.wait(costly, return_when=asyncio.FIRST_COMPLETED)
        outcome = await runtime.run(HONEST, tenant="honest")
        done = sum(task.done() for task in costly)
        for task in costly:
            task.cancel()
        await asyncio.gather(*costly, return_exceptions=True)
        again = await runtime.run(HONEST, tenant="a")

    assert (outcome.status, outcome.value) == ("finished", {"name": "item 7", "value": 14})
    assert done < 6
    assert again.status == "finished"


@pytest.mark.parametrize(
    "text",
    [
        "1;" * 500_000, "a\n" * 500_000, "f()\n" * 250_000, ("x = " + "-" * 80 + "1\n") * 10_000,
        "f'{a}'\n" * 140_000, "x = {" + "1:1," * 250_000 + "}\n", "x = '" + "\\'" * 300_000 + "\n" + "1;" * 150_001,
    ],
    ids=["constants", "names", "calls", "signs", "f-strings", "pairs", "unclosed"],
)  # fmt: skip
async def test_a_text_of_too_many_nodes_is_refused_without_a_tree(text: str) -> None:
    found = await LargeChecks().check(text, [], limits=LIMITS, known_names=frozenset())

    assert found == Problem(
        kind="too_large",
        message="the program has more than 300000 names, values and operators; read data from files or tools instead",
    )


@pytest.mark.parametrize(
    "text",
    [
        "x = '''" + "it's 'so', (and) [so] {on}; " * 30_000 + "'''\n",
        'x = "' + '\\"' * 300_000 + '"\n',
        "# " + "a b c; " * 140_000 + "\nx = 1\n",
        "x = [" + "12, " * 240_000 + "]\n",
    ],
    ids=["text", "escapes", "comment", "numbers"],
)
async def test_a_megabyte_of_data_is_a_program(text: str) -> None:
    found = await LargeChecks().check(text, [], limits=LIMITS, known_names=frozenset())

    assert found == Program(text=text)
