"""What a model can learn from an outcome: shapes of misread replies, the rest of a long output."""

import pytest

from toolfold import Limits, Reply, Runtime, ToolSpec

ENGINES = ["process", "monty"]


def get_user(id: int):
    """Get a user."""
    return {"id": id, "name": "Ada", "teams": [{"key": "a"}, {"key": "b", "lead": None}]}


def count_users():
    """Count users."""
    return 3


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "program",
    [
        "user = await get_user(id=1)\nkey = 'nme'\nprint(user[key])",
        "user = await get_user(id=1)\nprint([team['nme'] for team in user['teams']])",
        "async def main():\n    user = await get_user(id=1)\n    return user['nme']\nprint(await main())",
        "user = await get_user(id=1)\nprint(user['teams']['key'])",
        "user = await get_user(id=1)\nprint(user['name']['first'])",
        "user = await get_user(id=1)\nprint(user['teams'][7])",
        "user = await get_user(id=1)\nprint('name: ' + user['id'])",
    ],
)
async def test_a_program_that_misreads_a_reply_is_told_what_was_in_it(engine: str, program: str) -> None:
    async with Runtime([get_user, count_users], engine=engine) as runtime:
        outcome = await runtime.run(f"await count_users()\n{program}")

    shape = "get_user returned {id: int, name: str, teams: list[{key: str, lead?: None}] (2 items)}"
    assert (outcome.status, outcome.shapes) == ("failed", (shape,))


@pytest.mark.parametrize(
    "program",
    [
        "user = await get_user(id=1)\nprint({'a': 1}['b'])",
        "user = await get_user(id=1)\nraise ValueError(user)",
        "user = await get_user(id=1)\nassert user['id'] == 2",
    ],
)
async def test_a_mistake_that_has_nothing_to_do_with_a_reply_says_nothing_of_it(program: str) -> None:
    async with Runtime([get_user]) as runtime:
        outcome = await runtime.run(program)

    assert (outcome.status, outcome.shapes) == ("failed", ())


async def test_a_large_reply_is_told_by_its_shape_too() -> None:
    def rows():
        return [{"id": number, "text": "x" * 100} for number in range(2_000)]

    async with Runtime([rows]) as runtime:
        outcome = await runtime.run("found = await rows()\nprint(found[0]['txt'])")

    assert outcome.shapes == ("rows returned list[{id: int, text: str}] (2,000 items)",)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_silent_program_is_told_what_its_last_calls_returned(engine: str) -> None:
    async with Runtime([get_user, count_users], engine=engine) as runtime:
        quiet = await runtime.run("n = await count_users()\nuser = await get_user(id=n)")
        printing = await runtime.run("print(await count_users())")
        with_value = await runtime.run("await count_users()")
        without_calls = await runtime.run("x = 1")

    assert quiet.shapes == (
        "count_users returned int",
        "get_user returned {id: int, name: str, teams: list[{key: str, lead?: None}] (2 items)}",
    )
    assert (printing.shapes, with_value.shapes, without_calls.shapes) == ((), (), ())


async def test_a_reply_that_came_from_outside_is_told_as_well() -> None:
    ask = ToolSpec(name="ask", python_name="ask")
    async with Runtime() as runtime:
        paused = await runtime.start("answer = await ask()\nprint(answer['yes'])", tools=[ask])
        outcome = await runtime.resume(paused.execution_id, [Reply(call_id=1, value={"no": True})])

    assert getattr(outcome, "shapes", None) == ("ask returned {no: bool}",)


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_long_output_keeps_its_ends_and_is_a_file_for_the_next_program(engine: str) -> None:
    printing = "for number in range(20_000):\n    print(f'line {number:05}')"
    async with Runtime(engine=engine) as runtime:
        outcome = await runtime.run(printing)
        read = await runtime.run(f"text = open({outcome.output_name!r}).read()\nprint(len(text), text[-12:])")

    assert outcome.stdout.endswith("\nline 05956")
    assert outcome.stdout_tail.startswith("line 19")
    assert outcome.stdout_tail.endswith("line 19999\n")
    assert len(outcome.stdout) + outcome.stdout_cut_bytes == 20_000 * 11
    assert read.stdout.split() == ["220000", "line", "19999"]


async def test_the_output_of_another_tenant_is_not_there() -> None:
    async with Runtime() as runtime:
        outcome = await runtime.run("print('x' * 100_000)", tenant="one")
        program = f"import os\nprint(os.path.exists({outcome.output_name!r}))"
        seen = [(await runtime.run(program, tenant=tenant)).stdout for tenant in ("one", "two", "")]

    assert seen == ["True\n", "False\n", "False\n"]


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_traceback_is_whole_at_the_smallest_limit(engine: str) -> None:
    program = "def inner(x):\n    return x['gone']\nprint('y' * 5_000)\ninner({})"
    async with Runtime(engine=engine) as runtime:
        outcome = await runtime.run(program, limits=Limits(output_bytes=1))

    assert outcome.stdout == "y"
    assert outcome.stderr == (
        "Traceback (most recent call last):\n"
        '  File "<program>", line 4, in __main__\n'
        "    inner({})\n"
        '  File "<program>", line 2, in inner\n'
        "    return x['gone']\n"
        "KeyError: 'gone'\n"
    )


async def test_a_message_of_any_length_leaves_both_ends_of_its_traceback() -> None:
    async with Runtime() as runtime:
        outcome = await runtime.run("raise ValueError('a' * 100_000 + 'end')", limits=Limits(output_bytes=100))

    assert outcome.stderr.startswith('Traceback (most recent call last):\n  File "<program>", line 1, in __main__\n')
    assert outcome.stderr.endswith("aend\n")
    assert "characters left out)" in outcome.stderr
