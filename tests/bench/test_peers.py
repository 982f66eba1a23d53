"""The arithmetic and the spelling of the benches beside peers; the peers themselves are not installed for this."""

import asyncio

import pytest

from bench.codemode import Costs, costs
from bench.languages.causes import OTHER, cause_of
from bench.languages.corpus import FOLDER, NO_OUTPUT, WRONG_OUTPUT, Program, programs, read
from bench.languages.report import grouped
from bench.measure import Cell
from bench.peers.blocking import blocking
from bench.peers.client import versions
from bench.peers.roster import PEERS
from bench.peers.spelling import without_await
from bench.peers.targets import Loss, Target, losses
from bench.peers.worker import words


def cell(*samples: float, error: str = "", higher_is_better: bool = False) -> Cell:
    return Cell(passes=[list(samples)], error=error, higher_is_better=higher_is_better)


def test_a_program_is_spelled_without_await_and_with_a_return() -> None:
    text = "import asyncio\nn = await add(a=await add(a=1, b=2), b=3)\nawait asyncio.sleep(0)\nn + 1"

    spelled = without_await(text, {"add"}, module="tools", returns=True)

    assert spelled == "import asyncio\nn = tools.add(a=tools.add(a=1, b=2), b=3)\nawait asyncio.sleep(0)\nreturn n + 1"


def test_a_program_that_is_no_python_is_left_as_it_is() -> None:
    assert without_await("for for", {"add"}) == "for for"


def test_a_blocking_tool_answers_with_and_without_waiting() -> None:
    async def at_once(n: int) -> int:
        return n + 1

    async def later(n: int) -> int:
        await asyncio.sleep(0)
        return n + 1

    async def never(n: int) -> int:
        raise RuntimeError("no stock")

    assert blocking(at_once)(n=1) == 2
    assert blocking(later)(n=1) == 2
    with pytest.raises(RuntimeError, match=r"^no stock$"):
        blocking(never)(n=1)


def test_a_target_is_the_ratio_to_a_peer_or_has_no_figure() -> None:
    results = {"empty": {"toolfold": cell(1.0, 3.0), "harness": cell(8.0), "fastmcp": cell(error="no")}}

    assert Target("empty", "harness", 0.2).judge(results) == (0.25, False)
    assert Target("empty", "harness", 0.25).judge(results) == (0.25, True)
    assert Target("empty", "fastmcp", 0.12).judge(results) == (None, None)


def test_a_loss_is_a_peer_that_is_faster_or_runs_more_programs_but_never_the_floor() -> None:
    results = {
        "empty": {"exec": cell(0.1), "toolfold": cell(1.0), "monty": cell(0.5), "harness": cell(4.0)},
        "rate": {
            "exec": cell(9000.0, higher_is_better=True),
            "toolfold": cell(400.0, higher_is_better=True),
            "monty": cell(1000.0, higher_is_better=True),
            "harness": cell(error="cannot"),
        },
    }

    assert list(losses(results)) == [Loss("empty", "monty", 2.0), Loss("rate", "monty", 2.5)]


def test_the_cost_of_a_program_and_of_a_call_is_what_the_rest_does_not_explain() -> None:
    results = {
        "empty": {"agent": cell(4.0), "agent-toolfold": cell(6.0), "agent-harness": cell(error="no")},
        "sequential": {"agent": cell(10.0), "agent-toolfold": cell(160.0), "agent-harness": cell(error="no")},
        "gather": {"agent": cell(10.0), "agent-toolfold": cell(36.0), "agent-harness": cell(error="no")},
    }

    assert costs(results, "agent-toolfold") == Costs(2.0, 100.0, 30.0)
    assert costs(results, "agent-harness") == Costs(None, None, None)


def test_an_answer_is_judged_by_what_was_printed_and_by_its_value() -> None:
    program = Program(name="one", topic="output", text="", stdout="a\n", value=[1, [2, 3]])

    assert program.judge({"value": [1, (2, 3)], "stdout": "a"}) == ""
    assert program.judge({"value": [1, [2, 3]], "stdout": ""}) == NO_OUTPUT
    assert program.judge({"value": [1, [2, 3]], "stdout": "b\n"}) == WRONG_OUTPUT
    assert program.judge({"value": None, "stdout": "a\n"}) == "wrong value None"
    assert program.judge({"error": "NameError: x"}) == "NameError: x"


def test_a_program_is_read_with_what_it_must_answer() -> None:
    program = read(FOLDER / "print_and_a_value.py")

    assert program == Program(
        name="print_and_a_value",
        topic="output",
        text='users = await get_users()\nprint("found", len(users))\nlen(users)\n\n',
        stdout="found 3\n",
        value=3,
    )


def test_every_program_has_something_to_be_judged_by() -> None:
    corpus = programs()

    assert [program.name for program in corpus if not program.stdout and program.value is None] == []
    assert len(corpus) >= 80


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("ModuleNotFoundError: No module named 'io'", "a module that it does not have"),
        ("error[unresolved-import]: Cannot resolve imported module `io`", "a module that it does not have"),
        ("NotImplementedError: does not yet support yield expressions", "syntax that it does not know"),
        ("name '_getiter_' is not defined", "syntax that it does not know"),
        ("the monty engine cannot run the 'del' statement; write it without", "syntax that it does not know"),
        ("name 'open' is not defined", "a name or a right that it does not give"),
        ("error[unresolved-attribute]: Module `asyncio` has no member `Queue`", "a type checker that says no"),
        (NO_OUTPUT, "printed text that is lost"),
        ("wrong value [1]", "a wrong answer"),
        ("no answer in 20 s", "no end"),
        ("ZeroDivisionError: division by zero", OTHER),
    ],
)
def test_a_failure_has_a_cause(reason: str, cause: str) -> None:
    assert cause_of(reason) == cause


def test_failures_are_grouped_by_cause_and_successes_left_out() -> None:
    reasons = {"a": "", "b": "wrong value 1", "c": "wrong value 2"}

    assert grouped(reasons) == {"a wrong answer": {"b": "wrong value 1", "c": "wrong value 2"}}


def test_an_error_is_told_in_the_words_that_matter() -> None:
    checked = "Type error in code:\nerror[x]: no such name\n --> main.py:1:8\ninfo: more"
    nested = "Traceback\n  line 1\nCode execution failed at line 'a b' due to: KeyError: 'x'"

    assert words(RuntimeError(checked)) == "error[x]: no such name"
    assert words(RuntimeError(nested)) == "KeyError: 'x'"
    assert words(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_every_peer_that_is_installed_has_its_packages_pinned() -> None:
    pinned = {name: versions(name) for name, peer in PEERS.items() if peer.packages}

    assert {name: set(found) for name, found in pinned.items()} == {
        name: set(peer.packages) for name, peer in PEERS.items() if peer.packages
    }
