"""What a bash program may use together with all its processes, how it pauses, and what is left of it: nothing."""

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.escapes_support.seen import descendants
from toolfold import File, Limits, Outcome, Paused, Reply, Runtime, ToolSpec, tool
from toolfold.engines.process import run as run_module
from toolfold.errors import EngineCrashed, ReplayDiverged, UsageError

WEATHER = ToolSpec(
    name="get-weather",
    python_name="get_weather",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
)


@tool(read_only=True)
async def price(ticker: str) -> int:
    """Price of a share."""
    return len(ticker)


@tool(read_only=True)
async def repeat(count: int) -> str:
    """A text as long as that."""
    return "x" * count


@tool(read_only=True)
async def size(text: str) -> int:
    """Length of a text."""
    return len(text)


QUICK = replace(Limits(), wall_seconds=20)
FULL = """
dd if=/dev/zero of=/tmp/full bs=4096 2>/dev/null
price '{"ticker":"ACME"}'; echo $?
python3 -c 'import tools; tools.price(ticker="A")' 2> error; echo $?; sed -n 's/.*ToolError: /in Python: /p' error >&2
truncate -s -20480 /tmp/full
repeat '{"count":1000000}'; echo $?
rm /tmp/full
price '{"ticker":"ACME"}'
"""


def bash_processes() -> set[str]:
    """Programs of sandboxes that run on this machine now."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"left-behind" in b" ".join(words) and entry.name != str(os.getpid()):
                found.add(entry.name)
    return found


async def run(text: str, **options: Any) -> Outcome:
    async with Runtime([price, repeat, size], engine="process") as runtime:
        return await runtime.run(text, language="bash", **options)


async def test_calls_are_on_record_with_the_lines_that_made_them() -> None:
    outcome = await run(
        'echo start\nprice \'{"ticker":"ACME"}\'\nfor t in A BB; do\n  price "{\\"ticker\\":\\"$t\\"}"\ndone'
    )

    calls = [(call.name, dict(call.arguments), call.line) for call in outcome.calls]
    assert (outcome.status, outcome.stdout) == ("finished", "start\n4\n1\n2\n")
    assert calls == [("price", {"ticker": "ACME"}, 2), ("price", {"ticker": "A"}, 4), ("price", {"ticker": "BB"}, 4)]


async def test_python_in_bash_calls_the_same_tools() -> None:
    outcome = await run(
        "python3 - <<'PY'\nimport tools\nprint(tools.price(ticker='ACME') + tools.price({'ticker': 'A'}))\nPY"
    )

    assert (outcome.status, outcome.stdout, len(outcome.calls)) == ("finished", "5\n", 2)


async def test_a_tool_that_the_program_was_not_given_is_named_in_one_line() -> None:
    outcome = await run("python3 -c 'import tools; tools.prise(ticker=1)' 2>&1 | tail -1; cost 2>&1")

    assert outcome.stdout == (
        "AttributeError: no tool 'prise'; the tools of this program are: price, repeat, search_tools, size; a client may send only the "
        "tools that it sees called as commands, or that its model lists. Did you mean: 'price'?\n"
        "bash: line 1: cost: command not found\n"
    )


async def test_a_syntax_error_is_told_before_the_first_line_runs() -> None:
    outcome = await run('price \'{"ticker":"A"}\'\nif true; then\necho never')

    assert (outcome.status, outcome.stdout, outcome.calls) == ("failed", "", ())
    assert outcome.problem is not None
    assert outcome.problem.message == "bash: -c: line 4: syntax error: unexpected end of file"


async def test_a_certain_mistake_is_told_before_anything_runs() -> None:
    outcome = await run('price \'{"ticker":"A"}\'\nprise \'{"ticker":"B"}\' | jq .')

    assert (outcome.status, outcome.stdout, outcome.calls) == ("rejected", "", ())
    assert outcome.problem is not None
    assert str(outcome.problem) == (
        "line 2: no tool 'prise'; did you mean 'price'?\nprise '{\"ticker\":\"B\"}' | jq .\n^"
    )


async def test_a_mistake_whose_failure_is_handled_is_left_to_the_run() -> None:
    outcome = await run("prise '{}' 2>/dev/null || echo \"no such tool\"")

    assert (outcome.status, outcome.stdout) == ("finished", "no such tool\n")


async def test_files_come_in_and_go_out_and_only_the_data_folder_is_collected() -> None:
    text = "tr a-z A-Z < in.txt > out.txt; echo x > /tmp/scratch; rm in.txt; mkdir d; echo y > d/e.txt"

    outcome = await run(text, files=[File(name="in.txt", data=b"hello\n")])

    assert {file.name: file.data for file in outcome.files} == {"out.txt": b"HELLO\n", "d/e.txt": b"y\n"}


async def test_parallel_calls_of_background_jobs_are_one_pause() -> None:
    text = 'for c in A B C; do get_weather "{\\"city\\":\\"$c\\"}" & done | sort\nwait\nget_weather \'{"city":"D"}\''

    async with Runtime((), engine="process") as runtime:
        step: Paused | Outcome = await runtime.start(text, tools=[WEATHER], language="bash")
        rounds = []
        while isinstance(step, Paused):
            rounds.append(sorted(str(call.arguments["city"]) for call in step.calls))
            replies = [Reply(call_id=call.id, value=call.arguments["city"]) for call in step.calls]
            step = await runtime.resume(step.execution_id, replies)

    assert rounds == [["A", "B", "C"], ["D"]]
    assert (step.status, step.stdout) == ("finished", '"A"\n"B"\n"C"\n"D"\n')


async def test_a_program_goes_on_in_another_process_and_makes_no_call_twice(tmp_path: Path) -> None:
    # The delays differ by the process id, so that the jobs come in another order the second time.
    text = (
        'for c in A B C D; do { sleep 0.0$((RANDOM % 9)); get_weather "{\\"city\\":\\"$c\\"}"; } & done | sort\n'
        'wait\nget_weather \'{"city":"E"}\'\nget_weather \'{"city":"F"}\''
    )
    asked: list[str] = []
    step: Paused | Outcome | None = None
    while step is None or isinstance(step, Paused):
        async with Runtime((), engine="process", ledger=tmp_path / "runs.sqlite") as runtime:
            if step is None:
                step = await runtime.start(text, tools=[WEATHER], language="bash", durable=True)
            else:
                asked += [str(call.arguments["city"]) for call in step.calls]
                replies = [Reply(call_id=call.id, value=call.arguments["city"]) for call in step.calls]
                step = await runtime.resume(step.execution_id, replies)

    assert (sorted(asked[:4]), asked[4:]) == (["A", "B", "C", "D"], ["E", "F"])
    assert (step.status, step.stdout) == ("finished", '"A"\n"B"\n"C"\n"D"\n"E"\n"F"\n')


async def test_a_program_that_calls_something_else_in_a_replay_is_told_so(tmp_path: Path) -> None:
    text = (
        'get_weather "{\\"city\\":\\"$(od -An -N4 -tu4 /dev/urandom | tr -d \' \')\\"}"; get_weather \'{"city":"B"}\''
    )
    async with Runtime((), engine="process", ledger=tmp_path / "runs.sqlite") as runtime:
        step = await runtime.start(text, tools=[WEATHER], language="bash", durable=True)
    assert isinstance(step, Paused)

    async with Runtime((), engine="process", ledger=tmp_path / "runs.sqlite") as runtime:
        with pytest.raises(ReplayDiverged, match="call 1 was 'get-weather' with"):
            await runtime.resume(step.execution_id, [Reply(call_id=1, value="x")])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (
            "for i in 1 2 3 4 5 6; do python3 -c 'import time; x = b\"x\" * (120 << 20); time.sleep(60)' & done; wait",
            "memory",
        ),
        ("for i in 1 2 3; do while :; do :; done & done; wait", "cpu"),
    ],
)
async def test_memory_and_processor_time_count_for_all_processes_together(text: str, kind: str) -> None:
    outcome = await run(text, limits=replace(Limits(), cpu_seconds=2))

    assert outcome.problem is not None
    assert (outcome.status, outcome.problem.kind) == ("limit", kind)


async def test_a_fork_bomb_ends_with_its_program() -> None:
    outcome = await run(
        "f() { f left-behind | f left-behind & }; f; sleep 0.3; echo over", limits=replace(Limits(), wall_seconds=20)
    )

    assert (outcome.status, outcome.stdout) in (("finished", "over\n"), ("failed", ""))
    assert bash_processes() == set()


async def test_a_program_shares_its_process_group_with_no_other() -> None:
    # `kill 0` and `setpriority` reach a whole group, across the namespaces of its processes.
    outcome = await run("python3 -c 'import os; print(os.getpgid(1), os.getpgrp())'")

    assert outcome.stdout == "1 1\n"


async def test_what_a_program_leaves_running_ends_with_it() -> None:
    outcome = await run(
        "bash -c 'exec -a left-behind sleep 1000' & setsid nohup bash -c 'exec -a left-behind sleep 1000' & echo started"
    )

    assert (outcome.status, outcome.stdout) == ("finished", "started\n")
    assert bash_processes() == set()


async def test_what_a_program_leaves_running_cannot_keep_it_from_its_end() -> None:
    outcome = await run("while :; do echo tick; sleep 0.05; done & sleep 0.01; exit 3", limits=QUICK)

    assert (outcome.status, outcome.problem and outcome.problem.kind) == ("failed", "exception")


@pytest.mark.parametrize(
    "text",
    [
        "for i in {1..40}; do repeat '{\"count\":1000000}' | wc -c; done",
        "python3 -c '\nimport tools\nfor _ in range(40):\n    print(len(tools.repeat(count=1000000)) + 3)'",
        'for i in {1..40}; do size "{\\"text\\":\\"$(printf %0999998d)\\"}"; done',
    ],
    ids=["replies", "replies in Python", "arguments"],
)
async def test_what_calls_leave_in_the_temporary_folder_does_not_add_up(text: str) -> None:
    outcome = await run(text)

    number = "999998" if "size" in text else "1000003"
    assert (outcome.status, outcome.stderr, outcome.stdout) == ("finished", "", f"{number}\n" * 40)


async def test_calls_that_find_the_temporary_folder_full_fail_and_say_whether_they_were_made() -> None:
    outcome = await run(FULL)

    assert (outcome.status, outcome.stdout) == ("finished", "1\n1\n1\n4\n")
    assert outcome.stderr == (
        "price: /tmp has no room for its arguments; it was not called\n"
        "in Python: price: /tmp has no room for its arguments; it was not called\n"
        "repeat: it was called, but /tmp has no room for its reply\n"
    )
    assert [call.name for call in outcome.calls] == ["repeat", "price"]


async def test_arguments_that_are_too_large_fail_as_in_python() -> None:
    outcome = await run('size "{\\"text\\":\\"$(printf %011000000d)\\"}" || echo "status $?"')

    assert (outcome.status, outcome.stdout) == ("finished", "status 1\n")
    assert outcome.stderr == "the arguments of 'size' take 11000011 bytes; the limit is 10485760\n"


async def test_large_calls_of_several_jobs_are_more_than_one_message() -> None:
    outcome = await run('for i in 1 2 3; do size "{\\"text\\":\\"$(printf %09000000d)\\"}" & done; wait')

    assert (outcome.status, outcome.stdout) == ("finished", "9000000\n" * 3)


async def test_calls_whose_processes_have_ended_leave_room_for_others() -> None:
    outcome = await run(
        "dead=$(bash -c 'echo $$'); cd $TOOLFOLD_CALLS\n"
        "for i in {1..70}; do\n  read -r -N 1 slot < free; echo '{}' > arguments.$slot\n"
        '  echo "$slot $dead 1 price" > calls\ndone\necho free',
        limits=QUICK,
    )

    assert (outcome.status, outcome.stdout, len(outcome.calls)) == ("finished", "free\n", 70)


async def test_traps_see_the_line_of_a_call_that_fails_and_no_lines_of_ours() -> None:
    outcome = await run(
        "set -ET\ntrap 'echo \"error $LINENO\"' ERR\nf() {\n  price '[]' 2>/dev/null\n  echo on\n}\n"
        "f\nprice '[]' 2>/dev/null\ntrap 'echo return' RETURN\nprice '{\"ticker\":\"A\"}'\nset -x\nprice '[]'"
    )

    assert outcome.stdout == "error 4\non\nerror 8\n1\nreturn\nreturn\nerror 12\n"
    assert outcome.stderr.splitlines()[0] == "+ price '[]'"


async def test_a_guest_that_is_killed_from_outside_is_not_taken_for_one_that_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @tool(read_only=True)
    async def strike() -> None:
        """Kill the first process of each sandbox: below who starts the fork server, and below that."""
        below = {process: descendants(process) for process in descendants(os.getpid())}
        for process in below:
            if sum(process in others for others in below.values()) == 2:
                os.kill(process, signal.SIGKILL)

    monkeypatch.setattr(run_module, "HANG_UP_SECONDS", 0.0)  # its processes end before it, which takes longer
    async with Runtime([strike], engine="process") as runtime:
        with pytest.raises(EngineCrashed, match="the guest was killed from outside"):
            await runtime.run("for i in {1..9}; do sleep 60 & done; strike '{}'; wait", language="bash")


async def test_a_program_that_is_too_slow_hands_over_what_it_printed() -> None:
    outcome = await run("echo first; sleep 100", limits=replace(Limits(), wall_seconds=1))

    assert (outcome.status, outcome.stdout) == ("timeout", "first\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "monty"}, "the engine 'monty' runs no bash programs here"),
        (
            {"engine": "process", "engine_options": {"isolation": "landlock"}},
            "the engine 'process' runs no bash programs with the isolation 'landlock'",
        ),
    ],
)
async def test_an_engine_without_bash_says_so(options: dict[str, Any], message: str) -> None:
    async with Runtime((), **options) as runtime:
        with pytest.raises(UsageError, match=message):
            await runtime.run("echo", language="bash")


async def test_programs_in_both_languages_share_the_files_of_a_session_and_only_a_change_costs_the_variables() -> None:
    async with Runtime((), engine="process") as runtime:

        async def python(text: str) -> Outcome:
            return await runtime.run(text, session="s", keep_names=True)

        async def bash(text: str) -> Outcome:
            return await runtime.run(text, session="s", language="bash")

        await python("x = 1\nopen('a.txt', 'w').write('A')")
        looked = await bash("cat a.txt; x=2")
        kept = await python("print(x)")
        changed = await bash("echo B > b.txt; rm a.txt")
        lost = await python("import os\nprint(os.listdir())\nx = 2")
        again = await python("print(x)")

    gone = "session variables of Python programs are gone, because this bash program changed files"
    assert [outcome.stdout for outcome in (looked, kept, lost, again)] == ["A", "1\n", "['b.txt']\n", "2\n"]
    assert [outcome.hints for outcome in (looked, kept, changed, lost)] == [(), (), (gone,), ()]
    assert (looked.isolation, kept.isolation) == ("namespace, shell profile", "namespace")
