import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from inline_snapshot import snapshot

from tests.ledger.made_up import begun, given, made, outcome
from toolfold import Problem, UsageError
from toolfold.interfaces.cli.commands.runs import runs_app
from toolfold.interfaces.cli.execution_views import escape_controls
from toolfold.ledger.base import CallEntry, DecisionEntry, ReplyEntry
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import Call, CallRecord, File, Media, Program, Reply
from toolfold.runtime import Runtime

pytestmark = pytest.mark.long

Runs = Callable[..., tuple[int, str, str]]

# Noon in the zone that the tests set, so that the date is the same everywhere.
NOON = 1_800_000_000.0

PROGRAM = """\
replies = []
for ticker in ["ACME", "INIT"]:
    replies.append(await price(ticker=ticker))
print("got", len(replies))
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A file with three executions: one finished, one failed, one paused."""
    path = tmp_path / "ledger.sqlite"

    async def fill() -> None:
        opened = SqliteLedger(path)
        records = [
            CallRecord(id=1, name="price", arguments={"ticker": "ACME"}, seconds=0.1, bytes_out=4),
            CallRecord(
                id=2, name="price", arguments={"ticker": "INIT"}, started_seconds=0.1, seconds=0.3, bytes_out=1234,
                cached=True, attempts=2,
            ),
        ]  # fmt: skip
        opened.begin(
            begun("aa11", began_at=NOON, program=Program(text=PROGRAM), engine="process", isolation="namespace")
        )
        for record, value in zip(records, [12.5, {"rows": [b"\xff", "é"]}], strict=True):
            reply = ReplyEntry(Reply(call_id=record.id, value=value), record)
            opened.note("aa11", made(record.id, **record.arguments), reply)
        await opened.finish("aa11", outcome("aa11", stdout="got 2\n", calls=tuple(records), seconds=0.4))

        opened.begin(begun("ab22", began_at=NOON + 1, rerun_of="aa11", session="s1"))
        error = "no share 'X'\nask someone else"
        failed = CallRecord(id=1, name="price", arguments={"ticker": "X"}, seconds=0.1, error=error)
        opened.note("ab22", made(1, ticker="X"), ReplyEntry(Reply(call_id=1, error=error), failed))
        problem = Problem(kind="wall_clock", message="the program took longer than 1 s")
        await opened.finish("ab22", outcome("ab22", status="timeout", problem=problem, calls=(failed,), seconds=1.0))

        opened.begin(begun("bb33", began_at=NOON + 2, program=Program(text="await ask(\x1b[31m)\nmore")))
        opened.note("bb33", made(1, question="go\non?"))
        await opened.park("bb33")
        await opened.close()

    asyncio.run(fill())
    return path


@pytest.fixture
def runs(ledger: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runs:
    """Run `toolfold runs ARGUMENTS` on that file; its exit code, stdout and stderr."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.chdir(ledger.parent)
    time.tzset()

    def run(*arguments: str) -> tuple[int, str, str]:
        command = typer.main.get_command(runs_app)
        code = command.main(
            args=["--ledger", str(ledger), *arguments], prog_name="toolfold runs", standalone_mode=False
        )
        return (code, *capfd.readouterr())

    return run


def test_the_list_has_one_line_per_execution_newest_first(runs: Runs) -> None:
    assert runs() == (
        0,
        snapshot("""\
id    began                status     calls   seconds  program
bb33  2027-01-15 08:00:02  paused         1            await ask(\\x1b[31m)
ab22  2027-01-15 08:00:01  timeout        1     1.000  print(await price('ACME'))
aa11  2027-01-15 08:00:00  finished       2     0.400  replies = []
"""),
        "",
    )


def test_the_list_is_as_long_as_asked_for(runs: Runs) -> None:
    _, out, _ = runs("--limit", "1")

    assert [line.split()[0] for line in out.splitlines()] == ["id", "bb33"]


def test_the_list_as_json_has_every_field(runs: Runs) -> None:
    code, out, err = runs("--json", "--limit", "1")

    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {
            "execution_id": "bb33",
            "state": "paused",
            "status": "",
            "began_at": NOON + 2,
            "seconds": 0.0,
            "calls": 1,
            "first_line": "await ask(\x1b[31m)",
            "session": "",
            "tenant": "",
            "interface": "",
            "failed": 0,
            "saved_bytes": 0,
            "lanes": [],
            "title": "",
            "tags": [],
            "user": "",
            "conversation": "",
            "model": "",
        }
    ]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--status", "paused"], ["bb33"]),
        (["--status", "timeout"], ["ab22"]),
        (["--status", "failed"], []),
        (["--tool", "price"], ["ab22", "aa11"]),
        (["--tool", "charge"], []),
        (["--interface", "mcp"], []),
        (["--since", "2027-01-15T08:00:01"], ["bb33", "ab22"]),
        (["--since", "1h"], ["bb33", "ab22", "aa11"]),
        (["--limit", "1"], ["bb33"]),
    ],
    ids=" ".join,
)
def test_the_list_is_narrowed_by_status_time_tool_and_interface(
    options: list[str], found: list[str], runs: Runs
) -> None:
    code, out, err = runs("list", "--json", *options)

    assert (code, [one["execution_id"] for one in json.loads(out)], err) == (0, found, "")


def test_a_narrowed_list_without_a_line_says_so(runs: Runs) -> None:
    assert runs("list", "--interface", "mcp") == (0, "", "toolfold: no matching executions in this ledger\n")


def test_delete_takes_those_that_ended_and_a_paused_one_only_by_force(runs: Runs) -> None:
    with pytest.raises(UsageError) as refused:
        runs("delete", "aa11", "bb")
    with pytest.raises(UsageError):
        runs("delete", "ab22", "zz")

    assert str(refused.value) == "execution 'bb33' is paused, so it may continue; add --force to delete it"
    assert runs("delete", "aa11", "ab") == (0, "deleted 2 executions\n", "")
    assert runs("delete", "--force", "bb33") == (0, "deleted 1 execution\n", "")
    assert runs("list", "--json")[1] == "[]\n"


def test_an_empty_ledger_says_so_on_stderr(runs: Runs, tmp_path: Path) -> None:
    assert runs("--ledger", str(tmp_path / "new.sqlite")) == (0, "", "toolfold: no executions in this ledger yet\n")
    assert runs("--ledger", "memory") == (0, "", "toolfold: no executions in this ledger yet\n")


def test_show_has_the_program_its_output_and_its_calls_as_a_timeline(runs: Runs) -> None:
    assert runs("show", "aa") == (
        0,
        snapshot("""\
aa11  finished  2027-01-15 08:00:00  0.400 s  process (namespace)

program
  1  replies = []
  2  for ticker in ["ACME", "INIT"]:
  3      replies.append(await price(ticker=ticker))
  4  print("got", len(replies))

stdout
got 2

calls
     1  price(ticker='ACME')                              100.0 ms          4 bytes  ━━━━━━
     2  price(ticker='INIT')                              300.0 ms      1,234 bytes        ━━━━━━━━━━━━━━━━━━  cached  2 attempts
"""),
        "",
    )


def test_show_full_has_arguments_and_replies(runs: Runs) -> None:
    _, out, _ = runs("show", "aa11", "--full")

    assert out.partition("\ncalls\n")[2] == snapshot("""\
     1  price(ticker='ACME')                              100.0 ms          4 bytes  ━━━━━━
        arguments {"ticker": "ACME"}
        reply 12.5
     2  price(ticker='INIT')                              300.0 ms      1,234 bytes        ━━━━━━━━━━━━━━━━━━  cached  2 attempts
        arguments {"ticker": "INIT"}
        reply {"rows": [{"base64": "/w=="}, "é"]}
""")


def test_show_names_the_problem_the_error_and_what_it_was_a_rerun_of(runs: Runs) -> None:
    _, out, _ = runs("show", "ab22")

    assert out == snapshot("""\
ab22  timeout  2027-01-15 08:00:01  1.000 s
session s1
rerun of aa11

program
  1  print(await price('ACME'))

problem
the program took longer than 1 s

calls
     1  price(ticker='X')                                 100.0 ms          0 bytes  ━━━━━━━━━━━━━━━━━━━━━━━━
        error no share 'X'
""")


def test_show_of_a_paused_execution_has_the_calls_that_wait_and_no_escape_code(runs: Runs) -> None:
    _, out, _ = runs("show", "bb33")

    assert out == snapshot("""\
bb33  paused  2027-01-15 08:00:02

program
  1  await ask(\\x1b[31m)
  2  more

without a reply
     1  price(question='go\\non?')
""")


def test_show_says_by_whose_right_each_call_was_made(runs: Runs, ledger: Path) -> None:
    async def approve() -> None:
        opened = SqliteLedger(ledger)
        opened.begin(begun("dd55", began_at=NOON + 3))
        rights = [
            DecisionEntry(1, True, "", "ann", "tool", 9),
            *(DecisionEntry(n, True, "", "ann", "tool", 9, 1) for n in (2, 3, 5)),
        ]
        opened.note("dd55", *rights, DecisionEntry(4, False, "not\x1b[31m that", "bob"))
        await opened.finish("dd55", outcome("dd55"))
        await opened.close()

    asyncio.run(approve())

    code, out, _ = runs("show", "dd55")
    _, as_json, _ = runs("show", "dd55", "--json")

    assert (code, out.partition("\napprovals\n")[2]) == (
        0,
        "     1  approved by ann, for this tool in this program, at most 9 calls; also for 3 more: 2-3, 5\n"
        "     4  denied by bob, for this call: not\\x1b[31m that\n",
    )
    assert json.loads(as_json)["approvals"][-1] == {
        "call_id": 4, "approved": False, "reason": "not\x1b[31m that", "by": "bob", "covers": "call", "calls": None,
        "under": 0,
    }  # fmt: skip


@pytest.mark.parametrize("full", [False, True])
def test_show_as_json_has_the_record_and_replies_only_when_asked(runs: Runs, full: bool) -> None:
    code, out, err = runs("show", "aa11", "--json", *(["--full"] if full else []))

    shown = json.loads(out)

    assert (code, err, out.count("\n")) == (0, "", 1)
    assert {key: shown[key] for key in ("execution_id", "state", "rerun_of", "tools", "open_calls")} == {
        "execution_id": "aa11",
        "state": "ended",
        "rerun_of": "",
        "tools": ["price"],
        "open_calls": [],
    }
    assert shown["program"] == PROGRAM
    assert (shown["outcome"]["stdout"], len(shown["outcome"]["calls"])) == ("got 2\n", 2)
    replies = [call.get("reply", "none") for call in shown["calls"]]
    assert replies == ([12.5, {"rows": [{"base64": "/w=="}, "é"]}] if full else ["none", "none"])


def test_show_as_json_has_all_of_a_call_that_is_open(runs: Runs, ledger: Path) -> None:
    call = Call(id=1, tool="price", arguments={"raw": b"\xff"}, line=3)

    async def leave_open() -> None:
        opened = SqliteLedger(ledger)
        opened.begin(begun("ee66", began_at=NOON, session="s1", tenant="t", engine="process", isolation="landlock"))
        opened.note("ee66", CallEntry(call))
        await opened.park("ee66")
        await opened.close()

    asyncio.run(leave_open())

    shown = json.loads(runs("show", "ee66", "--json")[1])

    assert shown == {
        "execution_id": "ee66",
        "state": "paused",
        "began_at": NOON,
        "engine": "process",
        "isolation": "landlock",
        "session": "s1",
        "tenant": "t",
        "rerun_of": "",
        "program": "print(await price('ACME'))",
        "tools": ["price"],
        "calls": [],
        "open_calls": [{"id": 1, "name": "price", "line": 3, "within": 0, "arguments": {"raw": {"base64": "/w=="}}}],
        "approvals": [],
        "outcome": None,
    }
    assert len(shown["open_calls"][0]) == len(Call.__struct_fields__)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "zz"], "no execution 'zz' in the ledger; 'toolfold runs' lists them"),
        (["show", "\udced"], "the ledger has no record with '\\udced': that is not valid Unicode text"),
        (["show", "a"], "'a' matches several ids: aa11, ab22; use more characters"),
        (["rerun", "zz"], "no execution 'zz' in the ledger; 'toolfold runs' lists them"),
        (["rerun", "aa11", "missing.py"], "no program 'missing.py'; check the path"),
        (["rerun", "aa11", "--tools", "missing.py"], "no tools file 'missing.py'; check the path"),
        (["list", "--since", "soon"], "'soon' is not an age or a date; write it as 30m, 2h, 7d or 2026-01-31"),
        (["--ledger", "none/x.sqlite"], "no folder 'none' for the ledger; make it, or name another"),
        (
            ["show", "aa11", "--ledger", "redis://localhost"],
            "ledger 'redis://localhost' cannot be used: the server cannot be reached; check the server and the address",
        ),
    ],
)
def test_wrong_usage_is_one_clear_line(arguments: list[str], said: str, runs: Runs) -> None:
    with pytest.raises(UsageError) as caught:
        runs(*arguments)

    assert str(caught.value) == said


def test_a_sealed_ledger_is_shown_with_the_key_of_the_environment(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sealed.sqlite"
    asyncio.run(SqliteLedger(path, key="open sesame").close())

    with pytest.raises(UsageError) as caught:
        runs("--ledger", str(path))
    monkeypatch.setenv("TOOLFOLD_LEDGER_KEY", "open sesame")

    assert str(caught.value) == f"ledger {str(path)!r} is sealed; give its key"
    assert runs("--ledger", str(path))[0] == 0


def test_text_for_a_terminal_keeps_lines_and_letters_and_shows_codes() -> None:
    assert escape_controls("é\tx\n\x1b]0;title\x07 \u202eabc 😀") == "é\tx\n\\x1b]0;title\\x07 \\u202eabc 😀"


TOOLS = """
import toolfold

@toolfold.tool
def charge(customer: int) -> str:
    with open("charged", "a") as log:
        log.write(f"{customer}\\n")
    return f"charged {customer}"
"""


def test_a_corrected_program_repeats_no_call_that_was_made_before(
    runs: Runs, ledger: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("tools.py").write_text(TOOLS)
    Path("fixed.py").write_text("done = [await charge(customer=i) for i in range(37)]\nprint(done[0], len(done))\n")
    wrong = "done = [await charge(customer=i) for i in range(36)]\nprint(done[0].upper())\n1 / 0\n"

    async def first() -> str:
        from toolfold.interfaces.cli.load_tools import load_tools

        opened = SqliteLedger(ledger)
        async with Runtime(load_tools(["tools.py"]), ledger=opened) as runtime:
            outcome = await runtime.run(wrong)
        await opened.close()
        assert outcome.status == "failed"
        return outcome.execution_id

    execution_id = asyncio.run(first())
    capfd.readouterr()

    code, out, err = runs("rerun", execution_id[:12], "fixed.py", "--tools", "tools.py")

    assert (code, out) == (0, "charged 0 37\n")
    assert err == f"toolfold: 36 of 37 calls came from the record of {execution_id}\n"
    assert Path("charged").read_text().split() == [str(number) for number in range(37)]


def test_a_rerun_without_a_file_runs_the_recorded_program_again(runs: Runs, tmp_path: Path) -> None:
    Path("tools.py").write_text("def price(ticker: str) -> float:\n    return 80.0\n")

    code, out, err = runs("rerun", "aa11", "--tools", "tools.py", "--json")

    shown = json.loads(out)
    assert (code, err) == (0, "toolfold: 2 of 2 calls came from the record of aa11\n")
    assert (shown["stdout"], len(shown["calls"])) == ("got 2\n", 2)


def test_media_in_a_reply_is_shown_as_json(runs: Runs, ledger: Path) -> None:
    async def add() -> None:
        opened = SqliteLedger(ledger)
        opened.begin(begun("cc44", began_at=NOON + 3))
        picture = Media(kind="image", mime="image/png", data=b"\xff")
        opened.note("cc44", made(1), given(1, picture))
        await opened.finish("cc44", outcome("cc44", value=Call(id=1, tool="x", arguments={}).arguments))
        await opened.close()

    asyncio.run(add())

    _, out, _ = runs("show", "cc44", "--full")

    reply = out.partition("        reply ")[2]
    assert json.loads(reply) == {
        "kind": "image",
        "mime": "image/png",
        "uri": "",
        "name": "",
        "data": {"base64": "/w=="},
    }


def test_show_lists_the_files_that_the_program_left(ledger: Path, runs: Runs) -> None:
    async def add() -> None:
        opened = SqliteLedger(ledger)
        opened.begin(begun("dd55", began_at=NOON + 3))
        files = (File(name="plot.png", data=b"x" * 20_000, mime="image/png"), File(name="a\x1b.txt", data=b"hi"))
        await opened.finish("dd55", outcome("dd55", files=files))
        await opened.close()

    asyncio.run(add())

    _, shown, _ = runs("show", "dd55")

    assert shown.partition("\nfiles\n")[2] == (
        "  plot.png   image/png  20,000 bytes\n  a\\x1b.txt  application/octet-stream  2 bytes\n"
    )


def test_names_of_arguments_are_cleaned_like_values() -> None:
    from toolfold.interfaces.cli.execution_views import _signature

    call = Call(id=1, tool="ask", arguments={"a\x1b[2J\r\u202e": 1})

    assert _signature("ask", call, full=True) == r"ask(a\x1b[2J\r\u202e=1)"
