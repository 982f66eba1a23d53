"""Every way a program can end, at every interface that puts an outcome into words of its own.

A status that is added to `Status` fails here until each interface has been looked at.
"""

import json
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

import mcp_types
import pytest

from toolfold.interfaces.callback import messages as callback
from toolfold.interfaces.cli import command_process, outcome_output
from toolfold.interfaces.console import json_shapes
from toolfold.interfaces.frameworks.program_tool import render_outcome
from toolfold.interfaces.http import outcome_bodies, request_models, trainer_routes
from toolfold.interfaces.mcp import outcome_results as mcp
from toolfold.interfaces.orchestrator import executor
from toolfold.interfaces.pydantic_ai import outcome_returns as pydantic_ai
from toolfold.models import NOTHING_RAN, Outcome, Problem, Status

PROBLEMS: dict[Status, Problem | None] = {
    "finished": None,
    "failed": Problem(kind="exception", message="ValueError: no", line=1),
    "rejected": Problem(kind="syntax", message="'(' was never closed", line=2),
    "timeout": Problem(kind="wall_clock", message="the program took longer than 5 s"),
    "cancelled": None,
    "limit": Problem(kind="memory", message="the program used more than 512 MiB"),
}


def outcome_of(status: Status) -> Outcome:
    """As the runtime makes it."""
    stderr = "Traceback (most recent call last):\nValueError: no\n" if status == "failed" else ""
    return Outcome(execution_id="1", status=status, stderr=stderr, problem=PROBLEMS[status])


def at_callback(outcome: Outcome) -> Any:
    answer = json.loads(callback.to_json(outcome, (), callback.Frame(timeout_seconds=5)))
    error = answer["error"]
    return answer["success"], error and (error["type"], error["message"])


def at_command_line(outcome: Outcome) -> Any:
    return command_process.exit_of_status(outcome.status)


def at_console(outcome: Outcome) -> Any:
    return json_shapes.of_outcome(outcome, hidden=False)["status"]


def at_frameworks(outcome: Outcome) -> Any:
    shown = render_outcome(outcome)
    return shown.has_failed, shown.text


def at_http(outcome: Outcome) -> Any:
    answer = outcome_bodies.outcome_response(outcome, session="s", files=[])
    return answer.status, answer.body["status"], answer.body.get("error")


def at_http_run_code(outcome: Outcome) -> Any:
    answer = trainer_routes.run_code_response(outcome, request_models.RunCodeRequest(code="", language="python"), ())
    ran = answer["run_result"]
    return answer["status"], ran and (ran["status"], ran["return_code"])


def at_mcp(outcome: Outcome) -> Any:
    result = mcp.to_result(outcome, wall_seconds=5)
    (block,) = result.content
    assert isinstance(block, mcp_types.TextContent)
    return result.is_error, block.text


def at_pydantic_ai(outcome: Outcome) -> Any:
    if outcome.status == "finished":
        return pydantic_ai.to_return(outcome).return_value
    return pydantic_ai.to_retry(outcome).message


def test_calls_that_were_not_made_are_the_first_that_a_reader_of_any_interface_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    calls = ("send_email(...) at line 3", "note(...) at line 4 (2 times)")
    outcome = Outcome(execution_id="1", status="finished", stdout="out\n", value=1, unmade_calls=calls)
    line = "not made: send_email(...) at line 3, note(...) at line 4 (2 times) were never awaited"

    outcome_output.print_text(outcome)
    body = outcome_bodies.outcome_response(outcome, session="s", files=[]).body
    returned = pydantic_ai.to_return(outcome)

    assert capsys.readouterr() == ("out\n", f"toolfold: {line}\n")
    assert at_mcp(outcome) == (False, f"[Script executed successfully] {line}\nout\n")
    assert (body["stdout"], body["unmade_calls"]) == (f"{line}\nout\n", list(calls))
    assert json.loads(callback.to_json(outcome, (), callback.Frame(timeout_seconds=5)))["stdout"] == f"{line}\nout\n"
    assert at_frameworks(outcome) == (False, f"{line}\nout\nValue: 1")
    assert returned.return_value == {"printed": f"{line}\nout", "result": 1}
    assert returned.metadata["toolfold"]["unmade_calls"] == list(calls)
    assert executor._render(outcome, ())["output"] == f"{line}\nout\n"
    assert json_shapes.of_outcome(outcome, hidden=False)["unmade_calls"] == list(calls)
    assert outcome.to_dict()["unmade_calls"] == list(calls)
    assert line in outcome._repr_html_()


def test_probable_mistakes_are_the_first_that_a_reader_of_any_interface_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = "line 7: {total} stands in a text that is no f-string; write f before its quote"
    outcome = Outcome(execution_id="1", status="finished", stdout="out\n", value=1, hints=("one call only", line))

    outcome_output.print_text(outcome)
    body = outcome_bodies.outcome_response(outcome, session="s", files=[]).body

    assert capsys.readouterr() == ("out\n", f"toolfold: hint: {line}\n")
    assert at_mcp(outcome) == (False, f"[Script executed successfully] {line}\nout\n")
    assert body["stdout"] == f"{line}\nout\n"
    assert json.loads(callback.to_json(outcome, (), callback.Frame(timeout_seconds=5)))["stdout"] == f"{line}\nout\n"
    assert at_frameworks(outcome) == (False, f"{line}\nout\nValue: 1")
    assert pydantic_ai.to_return(outcome).return_value == {"printed": f"{line}\nout", "result": 1}
    assert executor._render(outcome, ())["output"] == f"{line}\nout\n"


EXPECTED: dict[Callable[[Outcome], Any], dict[Status, Any]] = {
    at_callback: {
        "finished": (True, None),
        "failed": (False, ("ValueError", "no")),
        "rejected": (
            False,
            (
                "SyntaxError",
                "line 2: '(' was never closed\nno tool was called; correct the program and send it again",
            ),
        ),
        "timeout": (False, ("TimeoutError", "the program took longer than 5 s")),
        "cancelled": (False, ("Cancelled", "the program was stopped")),
        "limit": (False, ("LimitExceeded", "the program used more than 512 MiB")),
    },
    at_command_line: {"finished": 0, "failed": 1, "rejected": 2, "timeout": 4, "cancelled": 130, "limit": 4},
    at_console: {status: status for status in get_args(Status)},
    at_frameworks: {
        "finished": (False, "(no output)"),
        "failed": (True, "Traceback (most recent call last):\nValueError: no"),
        "rejected": (
            True,
            "line 2: '(' was never closed\n"
            "The program was not started and no tool was called. Correct it and send it again.",
        ),
        "timeout": (True, "The program was stopped: the program took longer than 5 s"),
        "cancelled": (True, "The program was stopped before its end."),
        "limit": (True, "the program used more than 512 MiB"),
    },
    at_http: {
        "finished": (200, "completed", None),
        "failed": (200, "error", "ValueError: no"),
        "rejected": (200, "error", "SyntaxError: line 2: '(' was never closed"),
        "timeout": (408, "error", "Execution timeout"),
        "cancelled": (400, "error", "Execution cancelled"),
        "limit": (200, "error", "the program used more than 512 MiB"),
    },
    at_http_run_code: {
        "finished": ("Success", ("Finished", 0)),
        "failed": ("Failed", ("Finished", 1)),
        "rejected": ("Failed", ("Finished", 1)),
        "timeout": ("Failed", ("TimeLimitExceeded", None)),
        "cancelled": ("SandboxError", None),
        "limit": ("Failed", ("Finished", 137)),
    },
    at_mcp: {
        "finished": (False, "[Script executed successfully]\n(no output)"),
        "failed": (True, "[Script execution failed]\nTraceback (most recent call last):\nValueError: no"),
        "rejected": (
            True,
            "[Script execution failed]\nline 2: '(' was never closed\n"
            "The program was not started and no tool was called. Correct it and send it again.",
        ),
        "timeout": (True, "[Script execution failed]\nTimeoutError: Execution exceeded 5s limit"),
        "cancelled": (True, "[Script execution failed]\nCancelled: the program was stopped"),
        "limit": (True, "[Script execution failed]\nthe program used more than 512 MiB"),
    },
    at_pydantic_ai: {
        "finished": "(the program ended; it printed nothing and has no value)",
        "failed": "Traceback (most recent call last):\nValueError: no\nNo call of a tool had succeeded.",
        "rejected": "line 2: '(' was never closed\n"
        "The program was not run and no tool was called. Correct it and send it whole.",
        "timeout": "the program took longer than 5 s\nNo call of a tool had succeeded.",
        "cancelled": "the program was stopped: cancelled\nNo call of a tool had succeeded.",
        "limit": "the program used more than 512 MiB\nNo call of a tool had succeeded.",
    },
}


@pytest.mark.parametrize("interface", EXPECTED)
def test_every_status_has_its_words(interface: Callable[[Outcome], Any]) -> None:
    assert set(PROBLEMS) == set(get_args(Status)), "decide for each interface below"

    assert {status: interface(outcome_of(status)) for status in PROBLEMS} == EXPECTED[interface]


def static(name: str) -> str:
    return (files("toolfold.interfaces.console") / "static" / name).read_text()


def test_the_console_knows_after_which_statuses_nothing_ran() -> None:
    (known,) = re.findall(r"const NOTHING_RAN = (.*);", static("runs.js"))

    assert json.loads(known) == list(NOTHING_RAN)


def test_the_console_offers_every_status_as_a_filter() -> None:
    (choices,) = re.findall(r'choice\("status", "Status", (\[\[.*?\]\])\)', static("runs.js"), re.DOTALL)

    offered = [value for value, _ in json.loads(choices)]

    assert sorted(offered) == sorted(["", "running", "paused", *get_args(Status)])


def test_the_console_has_a_color_for_every_status() -> None:
    colored = set(re.findall(r"\.pill\.([a-z_]+)(?=[ ,])", static("app.css")))

    # A cancelled one is grey, as all are that have no color.
    assert colored == {*get_args(Status), "running", "paused", "waiting"} - {"cancelled"}


def test_the_page_on_outcomes_lists_every_status() -> None:
    page = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
    table = page.partition("| `status` |")[2].partition("\n\n")[0]

    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(get_args(Status))
