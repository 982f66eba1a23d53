"""`toolfold batch`: every program once in the output, whenever the command is killed."""

import json
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.interfaces.cli import killed_batch
from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT, Cli
from toolfold.interfaces.cli.app import run_command


def write_programs(folder: Path, *lines: dict[str, Any]) -> None:
    (folder / "programs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


BATCH = ("batch", "programs.jsonl", "--tools", "tools.py", "--out", "results.jsonl")


def test_each_line_becomes_a_result_with_its_own_options(cli: Cli, folder: Path) -> None:
    write_programs(
        folder,
        {"id": "call", "program": "await price('ACME')"},
        {"program": "1 / 0"},
        {"id": 7, "program": "open('a.txt').read()", "files": {"a.txt": {"base64": "aGk="}}},
        {"id": "limit", "program": "'a' * 2000", "limits": {"value_bytes": 1000}},
        {"id": "late", "program": "while True: pass", "limits": {"wall_seconds": 0.2}},
        {"id": "granted", "program": "await price('ACME')", "tools": []},
    )

    done = cli(*BATCH)

    assert (done.returncode, done.stdout) == (0, b"")
    found = {one["id"]: (one["status"], one["value"], len(one["calls"])) for one in read_results(folder)}
    assert found == {
        "call": ("finished", 12.5, 1),
        "2": ("failed", None, 0),
        "7": ("finished", "hi", 0),
        "limit": ("limit", None, 0),
        "late": ("timeout", None, 0),
        "granted": ("rejected", None, 0),
    }
    shown = done.stderr.decode()
    assert [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")] == [
        "programs", "statuses", "seconds", "calls", "slowest", "problems",
    ]  # fmt: skip
    assert "2 finished, 1 failed" in shown
    assert "1  ZeroDivisionError: division by zero" in shown


def test_what_has_a_result_is_not_run_again(cli: Cli, folder: Path) -> None:
    write_programs(folder, {"id": "a", "program": "1"})
    cli(*BATCH)
    first = read_results(folder)
    write_programs(folder, {"id": "a", "program": "1"}, {"id": "b", "program": "2"})

    assert cli(*BATCH).returncode == 0
    assert cli(*BATCH).returncode == 0

    found = read_results(folder)
    assert found[0] == first[0]
    assert [(one["id"], one["value"]) for one in found] == [("a", 1), ("b", 2)]


def test_half_a_line_that_a_kill_left_is_taken_off(cli: Cli, folder: Path) -> None:
    write_programs(folder, {"id": "a", "program": "1"}, {"id": "b", "program": "2"})
    cli(*BATCH)
    results = folder / "results.jsonl"
    results.write_bytes(results.read_bytes()[:-20])

    assert cli(*BATCH).returncode == 0

    assert sorted((one["id"], one["value"]) for one in read_results(folder)) == [("a", 1), ("b", 2)]


@pytest.mark.long
def test_killed_at_random_moments_it_loses_nothing_and_repeats_nothing_that_was_written(folder: Path) -> None:
    # `make test NAME=batch` is the same with 20,000 programs, and looks at memory.
    killed_batch.write_programs(folder, 400)
    starts = killed_batch.killed_and_started_again(folder, count=400, kills=5, chance=random.Random(20))

    assert [one.exit_code for one in starts] == [-signal.SIGKILL] * 5 + [0]
    assert killed_batch.mistakes(folder, 400) == []


def test_an_interrupt_ends_the_programs_and_says_how_to_go_on(folder: Path) -> None:
    write_programs(folder, {"id": "quick", "program": "1"}, {"id": "endless", "program": "while True: pass"})
    process = subprocess.Popen([*COMMAND, *BATCH], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    while not (folder / "results.jsonl").exists() or not read_results(folder):
        time.sleep(0.01)

    process.send_signal(signal.SIGINT)
    _, said = process.communicate()

    assert process.returncode == 130
    assert said.splitlines()[-1] == "toolfold: 1 of 2 programs have no result yet; start the command again to continue"
    assert [one["id"] for one in read_results(folder)] == ["quick"]


def test_each_mistake_is_told_in_one_line_before_anything_runs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    inputs = {
        "missing.jsonl": None,
        "text.jsonl": "print(1)\n",
        "unknown.jsonl": '{"program": "1"}\n{"program": "1", "colour": 2}\n',
        "empty.jsonl": "{}\n",
        "twice.jsonl": '{"program": "1", "id": "a"}\n{"program": "1", "id": "a"}\n',
        "limit.jsonl": '{"program": "1", "limits": {"days": 1}}\n',
        "file.jsonl": '{"program": "1", "files": {"a": {"hex": "00"}}}\n',
    }
    said = {}
    for name, text in inputs.items():
        if text is not None:
            (folder / name).write_text(text)
        assert run_command(["batch", name, "--out", "results.jsonl"]) == 2
        said[name] = capfd.readouterr().err
    (folder / "results.jsonl").write_text("hello\n")
    (folder / "ok.jsonl").write_text('{"program": "1"}\n')
    for command in ("batch ok.jsonl --out results.jsonl", "batch ok.jsonl --out ok.jsonl", "batch ok.jsonl --out no/x"):
        assert run_command(command.split()) == 2
        said[command] = capfd.readouterr().err

    assert said == snapshot(
        {
            "missing.jsonl": "toolfold: programs 'missing.jsonl' cannot be read: No such file or directory\n",
            "text.jsonl": "toolfold: 'text.jsonl' line 1: JSON is malformed: invalid character (byte 0)\n",
            "unknown.jsonl": "toolfold: 'unknown.jsonl' line 2: Object contains unknown field `colour`\n",
            "empty.jsonl": "toolfold: 'empty.jsonl' line 1: Object missing required field `program`\n",
            "twice.jsonl": "toolfold: 'twice.jsonl' line 2: the id 'a' is already used on an earlier line; ids must be unique\n",
            "limit.jsonl": "toolfold: 'limit.jsonl' line 1: unknown limit 'days'; the limits are calls, calls_in_flight, cpu_seconds, data_bytes, data_files, memory_bytes, open_files, output_bytes, program_bytes, reply_bytes, sent_bytes, temp_bytes, threads, value_bytes, wall_seconds\n",
            "file.jsonl": 'toolfold: \'file.jsonl\' line 1: a file must be text or {"base64": "..."}\n',
            "batch ok.jsonl --out results.jsonl": "toolfold: 'results.jsonl' line 1 is not a result; name another file\n",
            "batch ok.jsonl --out ok.jsonl": "toolfold: --out is the input file 'ok.jsonl'; name another file\n",
            "batch ok.jsonl --out no/x": "toolfold: results 'no/x' cannot be written: No such file or directory\n",
        }
    )
