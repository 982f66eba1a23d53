import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT, Cli
from toolfold import File, Problem
from toolfold.interfaces.cli.app import run_command
from toolfold.interfaces.cli.commands.run import run_program
from toolfold.interfaces.cli.program_inputs import RunOptions
from toolfold.runtime import Runtime
from toolfold.testing import Ended, Event, Printed, ScriptedEngine

pytestmark = pytest.mark.long


def play(*events: Event, **options: object) -> int:
    """Run the command's work on an engine that plays these events."""
    Path("program.py").write_text("pass")
    engine = ScriptedEngine(*events)
    chosen = RunOptions(program="program.py", **options)
    return run_program(chosen, lambda **given: Runtime(tools=given["tools"], engine=engine))


def test_stdout_is_the_programs_stdout_byte_for_byte(cli: Cli) -> None:
    done = cli("run", "-", "--tools", "tools.py", program='print("é\\x00\\r", await price("ACME"), end="")')

    assert (done.returncode, done.stdout, done.stderr) == (0, "é\x00\r 12.5".encode(), b"")


def test_code_on_the_command_line_runs_within_the_limits_that_are_named_there(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "toolfold.yaml").write_text("limits: {memory_bytes: 1GiB, calls: 5}\nledger: {where: memory}\n")

    def run(*arguments: str) -> tuple[int, str, str]:
        return (run_command(["run", *arguments]), *capfd.readouterr())

    ran = run(
        "-c", "print(len([await price(t) for t in ['ACME'] * 3]))", "--tools", "tools.py", "--limit", "calls=2", "-v"
    )
    hungry = run("-c", "bytearray(200 * 2**20)", "--memory", "64MiB")

    assert (ran[0], ran[1]) == (4, "")
    assert ran[2].count("price(ticker='ACME')") == 2
    assert (hungry[0], hungry[2].splitlines()[-2]) == (4, "line 1: the program used more than its 64 MiB of memory")


def test_short_options_are_known(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command(["-V"]) == run_command(["--version"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert run_command(["runs", "show", "-h"]) == 0

    assert len(lines) == 2
    assert len(set(lines)) == 1
    assert capfd.readouterr().out.startswith("Usage: toolfold runs show [OPTIONS] {ID}")
    assert run_command(["--help"]) == 0
    assert [line.split("  ")[1] for line in capfd.readouterr().out.splitlines() if "version" in line] == [
        "-V, --version"
    ]


def test_what_a_tool_prints_goes_to_stderr_not_into_the_programs_output(cli: Cli, folder: Path) -> None:
    (folder / "loud.py").write_text(
        'import os\nprint("loading")\ndef shout() -> int:\n    print("calling")\n    return os.system("echo running")\n'
    )

    done = cli("run", "-", "--tools", "loud.py", program="print(await shout())")

    assert (done.returncode, done.stdout) == (0, b"0\n")
    assert sorted(done.stderr.decode().split()) == ["calling", "loading", "running"]


def test_a_failing_program_shows_its_traceback_and_exits_with_1(cli: Cli) -> None:
    done = cli("run", "-", program='print("so far")\n1 / 0\n')

    assert (done.returncode, done.stdout) == (1, b"so far\n")
    assert done.stderr.decode() == snapshot(
        """\
Traceback (most recent call last):
  File "<program>", line 2, in __main__
    1 / 0
ZeroDivisionError: division by zero
"""
    )


def test_a_rejected_program_is_answered_with_its_line_and_exits_with_2(cli: Cli) -> None:
    done = cli("run", "-", "--tools", "tools.py", program='x = 1\nprint(await prise("ACME"))\n')

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == snapshot(
        """\
line 2: no tool 'prise'; did you mean 'price'?
print(await prise("ACME"))
            ^
"""
    )


def test_a_program_that_takes_too_long_exits_with_4_and_keeps_its_output(cli: Cli) -> None:
    for seconds in ("0.5", "5", "50"):  # the next where its time was over before a busy machine had begun
        done = cli("run", "-", "--timeout", seconds, program='print("so far", flush=True)\nwhile True: pass\n')
        if done.stdout:
            break

    assert (done.returncode, done.stdout) == (4, b"so far\n")
    assert done.stderr.decode() == f"the program took longer than {seconds} s\n"


def test_json_is_one_object_with_every_field_of_the_outcome(cli: Cli) -> None:
    done = cli("run", "-", "--json", "--tools", "tools.py", program='print(await price("ACME"))\nb"\\xff"')

    shown = json.loads(done.stdout)

    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)
    changing = ("execution_id", "seconds", "engine", "isolation", "context_saved", "calls", "hints", "unmade_calls")
    assert {key: value for key, value in shown.items() if key not in changing} == {
        "status": "finished",
        "value": {"base64": "/w=="},
        "stdout": "12.5\n",
        "stderr": "",
        "stdout_cut_bytes": 0,
        "stderr_cut_bytes": 0,
        "problem": None,
        "files": [],
    }
    assert [(call["name"], call["arguments"], call["error"]) for call in shown["calls"]] == [
        ("price", {"ticker": "ACME"}, None)
    ]


def test_a_file_is_read_in_the_data_folder_and_a_made_file_comes_out(cli: Cli, folder: Path) -> None:
    (folder / "data.csv").write_text("a,b\n1,2\n")
    program = 'open("/mnt/data/out.txt", "w").write(open("/mnt/data/data.csv").read().upper())'

    done = cli("run", "-", "--json", "--file", "data.csv", "--out", "made", program=program)

    shown = json.loads(done.stdout)
    assert (shown["problem"], shown["files"]) == (None, [{"name": "out.txt", "mime": "text/plain", "size": 8}])
    assert {path.name: path.read_text() for path in (folder / "made").iterdir()} == {"out.txt": "A,B\n1,2\n"}


def test_a_figure_saved_in_the_data_folder_comes_out_as_a_picture(cli: Cli, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    program = 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig("/mnt/data/plot.png")\n'

    done = cli("run", "-", "--engine", "process", "--out", "made", program=program)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (folder / "made/plot.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_a_hostile_name_of_a_made_file_is_left_out_and_said(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    files = (File(name="../evil", data=b"x"), File(name="good", data=b"y"))

    code = play(Ended(status="finished", files=files), out=Path("made"))

    assert code == 2
    assert capfd.readouterr().err == "toolfold: file '../evil' was not written: its name points outside the folder\n"
    assert sorted(str(path) for path in Path().rglob("*") if path.is_file()) == ["made/good", "program.py", "tools.py"]


def test_what_was_cut_and_which_limit_was_met_are_said_on_stderr(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    problem = Problem(kind="memory", message="the program used more than 512 MiB")

    code = play(
        Printed("out"),
        Printed("err", stream="stderr"),
        Printed("", cut_bytes=7),
        Ended(status="limit", problem=problem),
    )

    assert code == 4
    out, err = capfd.readouterr()
    assert (out, err) == (
        "out",
        "err\ntoolfold: 7 bytes of stdout were cut\nthe program used more than 512 MiB\n",
    )


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    Path("program.py").write_text('print("x" * 1_000_000)')
    command = subprocess.Popen(
        [*COMMAND, "run", "program.py"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert command.stdout is not None
    command.stdout.close()

    _, err = command.communicate()

    assert (command.returncode, err) == (0, b"")


def test_on_a_terminal_each_call_has_its_line_and_the_value_is_shown(folder: Path) -> None:
    Path("program.py").write_text('await price("ACME")\nawait price("INIT")')
    ours, theirs = os.openpty()
    done = subprocess.run(
        [*COMMAND, "run", "program.py", "--tools", "tools.py"],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=ENVIRONMENT,
        check=False,
    )
    os.close(theirs)

    lines = [line.split() for line in os.read(ours, 65536).decode().splitlines()]
    os.close(ours)

    assert (done.returncode, done.stdout) == (0, b"")
    assert [(line[0], line[1]) for line in lines[:2]] == [("1", "price(ticker='ACME')"), ("2", "price(ticker='INIT')")]
    assert lines[-1] == ["toolfold:", "value:", "80.0"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_the_program_and_leaves_no_process(number: int, code: int, folder: Path) -> None:
    subreaper(on=True)
    before = children()
    Path("waiting.py").write_text('await block("started")')
    try:
        with subprocess.Popen(
            [*COMMAND, "run", "waiting.py", "--tools", "tools.py"],
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            start_new_session=True,
        ) as command:
            wait_for(Path("started"))
            # To the whole group, as a terminal does for Ctrl-C.
            os.killpg(command.pid, number)
            _, err = command.communicate(timeout=60)

        assert command.returncode == code
        said = r"toolfold: stopped; block\(path='started'\) may have run; toolfold runs show [0-9a-f]{16}\n"
        assert re.fullmatch(said, err.decode()), err
        assert [child for child in children() if child not in before] == []
    finally:
        subreaper(on=False)


def test_a_signal_during_a_rerun_says_which_calls_may_have_run(cli: Cli, folder: Path) -> None:
    execution_id = json.loads(cli("run", "-", "--json", program="1").stdout)["execution_id"]
    Path("waiting.py").write_text('await block("started")')
    arguments = [*COMMAND, "runs", "rerun", execution_id, "waiting.py", "--tools", "tools.py"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, env=ENVIRONMENT, start_new_session=True) as command:
        wait_for(Path("started"))
        os.killpg(command.pid, signal.SIGINT)
        _, err = command.communicate(timeout=60)

    said = r"toolfold: stopped; block\(path='started'\) may have run; toolfold runs show [0-9a-f]{16}\n"
    assert command.returncode == 130
    assert re.fullmatch(said, err.decode()), err


def test_a_tool_that_never_comes_back_does_not_hold_the_command(cli: Cli) -> None:
    done = cli("run", "-", "--timeout", "0.5", "--tools", "tools.py", program='await block("started")')

    assert (done.returncode, done.stderr) == (4, b"the program took longer than 0.5 s\n")


# As containers have it: a seccomp filter that refuses `unshare` and allows all else, then the command.
DENIED = """
import os, struct, sys
from toolfold_guest.jail import kernel_calls, lockdown
code = [(0x20, 0, 0, 0), (0x15, 0, 1, kernel_calls.MACHINE.setup["unshare"]), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
kernel_calls.no_new_privileges()
lockdown.load_filter(b"".join(struct.pack("=HBBI", *one) for one in code))
os.execv(sys.argv[1], sys.argv[1:])
"""


def without_namespaces(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """On a machine whose wasm engine has no place for what it compiles."""
    command = [sys.executable, "-c", DENIED, *COMMAND, *arguments]
    environment = {**ENVIRONMENT, "TOOLFOLD_WASM_CACHE": "/dev/null/cache"}
    return subprocess.run(command, capture_output=True, env=environment, check=False)


def test_where_user_namespaces_are_denied_nothing_runs_and_the_exit_code_is_3(folder: Path) -> None:
    Path("program.py").write_text('print("ran")')

    done = without_namespaces("run", "program.py")

    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (3, b"", 1)
    assert done.stderr.startswith(b"toolfold: cannot isolate here: ")


def test_where_user_namespaces_are_denied_a_server_ends_with_one_line_and_exit_code_3(folder: Path) -> None:
    Path("toolfold.yaml").write_text("engine: process\nledger: {where: memory}\n")

    done = without_namespaces("serve", "--port", "0")

    *before, last = done.stderr.decode().splitlines()
    assert (done.returncode, [line.partition(" on ")[0] for line in before]) == (
        3,
        [
            "toolfold: listening",
            "toolfold: no API key is configured, so only this machine is served",
            "toolfold: bash programs are",
        ],
    )
    assert last.startswith("toolfold: cannot isolate here: user namespaces are refused")


def test_where_user_namespaces_are_denied_landlock_runs_when_it_is_asked_for(folder: Path) -> None:
    Path("program.py").write_text('print("ran")')

    done = without_namespaces("run", "program.py", "--isolation", "landlock", "--json")

    outcome = json.loads(done.stdout)
    assert (done.returncode, outcome["stdout"], outcome["isolation"]) == (0, "ran\n", "landlock")


def test_where_neither_a_jail_nor_wasm_is_possible_auto_runs_on_monty_and_says_so(folder: Path) -> None:
    Path("program.py").write_text('print("ran")')

    done = without_namespaces("run", "program.py", "--engine", "auto", "--json")

    outcome = json.loads(done.stdout)
    reason = "cannot isolate here: user namespaces are refused (unshare: Operation not permitted)"
    assert (done.returncode, outcome["stdout"], outcome["engine"]) == (0, "ran\n", "monty")
    assert f"ran on the monty engine, a subset of Python, because {reason}" in outcome["hints"]
    assert b"and the wasm engine's cache folder cannot be made (Not a directory)" in done.stderr


@pytest.mark.long
def test_where_user_namespaces_are_denied_the_doctor_names_the_layer_and_fails(folder: Path) -> None:
    done = without_namespaces("doctor", "--json")

    diagnosis = json.loads(done.stdout)
    assert (done.returncode, diagnosis["tier"], diagnosis["ok"]) == (3, "landlock", False)


def subreaper(*, on: bool) -> None:
    """Orphans of our children become our children, so that none can hide."""
    ctypes.CDLL(None).prctl(36, int(on), 0, 0, 0)


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.02)


def test_the_hints_of_a_failed_program_are_on_stderr_without_a_terminal_too(cli: Cli) -> None:
    failed = cli("run", "-c", "open('mine.txt')")

    assert (failed.returncode, failed.stderr.decode().splitlines()[-1]) == (
        1,
        "toolfold: hint: 'mine.txt' is not in the data folder, which is empty; programs do not see files of the host; "
        "--file mine.txt puts it there",
    )
