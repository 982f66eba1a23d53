"""Commands as tools."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolfold.errors import UsageError
from toolfold.models import Call, Reply, Value
from toolfold.sources.shell_commands import shell_tool
from toolfold.tools import Catalog, Router, Tool

ECHO = "import json, sys; print(json.dumps(sys.argv[1:]))"


async def serve(tool: Tool, **arguments: Value) -> Reply:
    return await Router(Catalog([tool])).serve(Call(id=1, tool=tool.spec.name, arguments=arguments))


def echo(*argv: Any, **options: Any) -> Tool:
    """A command that prints its arguments as JSON."""
    return shell_tool("echo", [sys.executable, "-c", ECHO, *argv], output="json", **options)


def python(text: str, **options: Any) -> Tool:
    return shell_tool("py", [sys.executable, "-c", text.replace("{", "{{").replace("}", "}}")], **options)


def properties(*required: str, **schemas: Any) -> dict[str, Any]:
    return {"type": "object", "properties": schemas, "required": list(required)}


async def test_a_value_stays_one_argument_whatever_is_in_it() -> None:
    values = ["a b", "$(id)", "; rm -rf /", "`x`", '"', "'", "*", "\n", "日本", "", "{other}", "\\"]

    replies = [await serve(echo("{text}", "x={text}"), text=value) for value in values]

    assert [reply.value for reply in replies] == [[value, f"x={value}"] for value in values]


async def test_values_that_are_no_text_are_written_as_json_and_lists_alone_as_several() -> None:
    schema = properties(n={}, flag={}, rows={}, made={})

    reply = await serve(
        echo("{n}", "{flag}", "{rows}", "r={rows}", "{made}", input_schema=schema),
        n=1.5,
        flag=True,
        rows=["a", 2],
        made={"k": [None]},
    )

    assert reply.value == ["1.5", "true", "a", "2", 'r=["a",2]', '{"k":[null]}']


async def test_without_a_value_an_item_or_a_group_is_left_out() -> None:
    schema = properties(count={"type": "integer"}, author={"type": "string"}, order={"default": "date"})
    tool = echo("log", ["-n", "{count}"], "--author={author}", "{order}", "{{}}", input_schema=schema)

    assert (await serve(tool)).value == ["log", "date", "{}"]
    assert (await serve(tool, count=3, author="ann", order="name")).value == [
        "log", "-n", "3", "--author=ann", "name", "{}",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("argv", "options", "value", "is_let_through"),
    [
        (["{path}"], {}, "-rf", False),
        (["{path}"], {}, "-", False),
        (["{path}"], {}, "a-b", True),
        (["{path}.txt"], {}, "--x", False),
        (["--file={path}"], {}, "-rf", True),
        (["x{path}"], {}, "-rf", True),
        (["--", "{path}"], {}, "-rf", True),
        (["{path}", "--"], {}, "-rf", False),
        (["{path}"], {"allow_options": ["path"]}, "-rf", True),
        (["{path}"], {"input_schema": properties(path={})}, -1, False),
        (["{path}"], {"input_schema": properties(path={})}, ["ok", "-rf"], False),
    ],
)
async def test_a_value_cannot_become_an_option(argv: Any, options: Any, value: Any, is_let_through: bool) -> None:
    reply = await serve(echo(*argv, **options), path=value)

    text = value[1] if isinstance(value, list) else str(value)
    refusal = f"'echo' got a bad argument: path must not start with '-', got {text!r}"
    if argv == ["{path}.txt"]:
        refusal = "'echo' got a bad argument: path must not start with '-', got '--x.txt'"
    assert reply.error == (None if is_let_through else refusal)


async def test_an_empty_value_does_not_hide_the_dash_of_the_next() -> None:
    reply = await serve(echo("{a}{b}", allow_options=["a"]), a="", b="-rf")

    assert reply.error == "'echo' got a bad argument: a must not start with '-', got '-rf'"


async def test_a_nul_is_refused() -> None:
    assert (await serve(echo("{a}"), a="x\0y")).error == "'echo' got a bad argument: a must not hold a NUL sign"


async def test_arguments_are_checked_against_the_schema() -> None:
    tool = echo("{n}", input_schema=properties("n", n={"type": "integer"}))

    assert (await serve(tool, n="x")).error == "'echo' got a bad argument: n must be an integer, got 'x'"
    assert (await serve(echo("{a}"))).error == "'echo' got a bad argument: a is missing"
    assert (await serve(echo("{a}"), a="", b="")).error == ("'echo' got a bad argument: no parameter 'b'; it takes a")


async def test_text_comes_without_its_last_line_end_and_is_never_parsed() -> None:
    assert (await serve(python("print('[1, 2]\\n')"))).value == "[1, 2]\n"
    assert (await serve(python("import sys; sys.stdout.buffer.write(b'\\xff')"))).value == "\ufffd"


async def test_output_that_should_be_json_and_is_not_is_an_error() -> None:
    assert (await serve(python("print('oh')", output="json"))).error == "'py' failed: it printed no JSON: 'oh\\n'"


async def test_stdin_is_a_template_too_and_else_empty() -> None:
    text = "import sys; print(sys.stdin.read())"
    argv = [sys.executable, "-c", text]

    assert (await serve(shell_tool("cat", argv, stdin="<{a}>"), a="-x\n")).value == "<-x\n>\n".removesuffix("\n")
    assert (await serve(shell_tool("cat", argv))).value == ""


async def test_a_command_that_does_not_read_its_input_is_no_failure() -> None:
    tool = shell_tool("deaf", [sys.executable, "-c", "print('hi')"], stdin="{a}")

    assert (await serve(tool, a="x" * 5_000_000)).value == "hi"


async def test_only_named_variables_of_the_host_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("REGION", "eu")
    text = "import os, json; print(json.dumps({k: os.environ.get(k) for k in ('SECRET', 'REGION', 'MODE')}))"

    reply = await serve(python(text, output="json", environment=["REGION", "MISSING"], variables={"MODE": "dry"}))
    by_default = await serve(python(text, output="json"))

    assert reply.value == {"SECRET": None, "REGION": "eu", "MODE": "dry"}
    assert by_default.value == {"SECRET": None, "REGION": None, "MODE": None}


async def test_it_runs_where_it_is_told(tmp_path: Path) -> None:
    assert (await serve(python("import os; print(os.getcwd())", cwd=str(tmp_path)))).value == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("import sys; print('out'); sys.exit('no such branch')", {}, "'py' failed: exit code 1: no such branch"),
        ("import sys; sys.exit(3)", {}, "'py' failed: exit code 3"),
        ("import sys; sys.exit(3)", {"ok_codes": (0, 3)}, None),
        ("import os; os.kill(os.getpid(), 15)", {}, "'py' failed: killed by signal 15"),
        ("import sys; sys.exit('x' * 5000)", {}, "'py' failed: exit code 1: " + "x" * 999),
    ],
)
async def test_a_failure_gives_the_code_and_the_end_of_stderr(text: str, options: Any, error: str | None) -> None:
    assert (await serve(python(text, **options))).error == error


async def test_a_command_that_is_not_there_is_named_without_its_folder() -> None:
    reply = await serve(shell_tool("gone", ["/opt/secret/gone-command"]))

    assert reply.error == "'gone' failed: No such file or directory: 'gone-command'"


async def test_too_much_output_ends_the_command() -> None:
    reply = await serve(python("while True: print('x' * 1000)", max_output_bytes=10_000))

    assert reply.error == "'py' failed: it printed more than 10000 bytes; ask for less"


def is_alive(pid: int) -> bool:
    try:
        # A zombie that nobody reaps is dead too; it has no command line.
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


async def until(is_so: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return is_so()


CHILD = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
"""


async def pids_in(folder: Path) -> list[int]:
    assert await until(lambda: (folder / "pids").exists() and bool((folder / "pids").read_text()))
    return [int(pid) for pid in (folder / "pids").read_text().split()]


async def test_a_timeout_kills_the_command_and_all_it_started(tmp_path: Path) -> None:
    for seconds in (1, 10, 60):  # the next where its time was over before a busy machine had started the child
        reply = await serve(python(CHILD + "time.sleep(100)", cwd=str(tmp_path), timeout_seconds=seconds))
        if (tmp_path / "pids").exists():
            break

    assert reply.error == f"'py' timed out after {seconds} s"
    pids = await pids_in(tmp_path)
    assert await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_a_cancel_kills_the_command_and_all_it_started(tmp_path: Path) -> None:
    task = asyncio.create_task(serve(python(CHILD + "time.sleep(60)", cwd=str(tmp_path))))
    pids = await pids_in(tmp_path)
    task.cancel()

    await asyncio.wait([task])

    assert task.cancelled()
    assert await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_what_a_command_leaves_running_is_ended_and_not_waited_for(tmp_path: Path) -> None:
    reply = await serve(python(CHILD + "print('done')", cwd=str(tmp_path)))

    assert reply.value == "done"
    pids = await pids_in(tmp_path)
    assert await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_a_process_that_left_the_group_cannot_hold_the_reply_back(tmp_path: Path) -> None:
    text = CHILD.replace('sleep(60)"]', 'sleep(1000)"], start_new_session=True') + "print('done')"

    reply = await serve(python(text, cwd=str(tmp_path)))
    child = (await pids_in(tmp_path))[1]
    was_alive = is_alive(child)
    os.kill(child, 9)

    assert (reply.value, was_alive) == ("done", True)


async def test_no_descriptor_is_left_open() -> None:
    tool = python("print('x')")
    await serve(tool)
    gc.collect()  # what earlier tests dropped holds descriptors until it is collected, which may be at any moment
    before = len(os.listdir("/proc/self/fd"))

    await asyncio.gather(*(serve(tool) for _ in range(8)))

    assert await until(lambda: len(os.listdir("/proc/self/fd")) == before)


def test_the_spec_has_a_schema_made_from_the_template() -> None:
    spec = shell_tool("git-log", ["git", "log", "{branch}"], stdin="{text}", domain="git", read_only=True).spec

    assert spec.input_schema == {
        "type": "object",
        "properties": {"branch": {"type": "string"}, "text": {"type": "string"}},
        "required": ["branch", "text"],
        "additionalProperties": False,
    }
    assert (spec.python_name, spec.domain, spec.read_only, spec.source) == ("git_log", "git", True, "shell")


@pytest.mark.parametrize(
    ("argv", "options", "error"),
    [
        ("git log", {}, "'x' needs its command as a list, such as ['git', 'log'], got 'git log'"),
        ([], {}, "'x' needs its command as a list, such as ['git', 'log'], got []"),
        (["{program}"], {}, "'x' must name its program in full: the first item takes no argument"),
        ([["git"]], {}, "'x' must name its program in full: the first item takes no argument"),
        (["a", "{"], {}, "'x' has a bad template '{': Single '{' encountered in format string"),
        (["a", "{}"], {}, "'x' has a bad template '{}': write {name}, or {{ for a brace"),
        (["a", "{b.c}"], {}, "'x' has a bad template '{b.c}': write {name}, or {{ for a brace"),
        (["a", "{b!r}"], {}, "'x' has a bad template '{b!r}': write {name}, or {{ for a brace"),
        (["a", "{b}"], {"input_schema": properties()}, "'x' uses an argument 'b' that its schema does not have"),
        (["a"], {"allow_options": ["b"]}, "'x' uses an argument 'b' that its schema does not have"),
        (["a"], {"input_schema": properties(b={})}, "'x' has an argument 'b' that its command does not use"),
    ],
)
def test_a_template_that_cannot_work_is_a_usage_error(argv: Any, options: Any, error: str) -> None:
    with pytest.raises(UsageError) as caught:
        shell_tool("x", argv, **options)

    assert str(caught.value) == error
