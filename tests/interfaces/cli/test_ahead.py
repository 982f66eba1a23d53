"""`toolfold run` without detours: the same options as the long way, and a sandbox for one program."""

import os
from pathlib import Path

import pytest

from tests.interfaces.cli.conftest import Cli
from toolfold import Limits
from toolfold.engines.process.zygote_launch import modules_of
from toolfold.interfaces.cli import app, fast_start
from toolfold.interfaces.cli.commands import run
from toolfold.interfaces.cli.fast_start import launch_early, plain_options, take_sandbox
from toolfold.interfaces.cli.program_inputs import RunOptions
from toolfold.models import InstalledSet

LINES = [
    ["p.py"],
    ["-"],
    ["-c", "print(1)"],
    ["-c", "-1"],
    ["p.py", "--tools", "a.py", "--tools", "b"],
    ["--json", "p.py", "--file", "a.csv", "--file", "b/c.csv", "--out", "d"],
    ["-v", "-c", "1", "--ledger", "memory", "--api", "x=spec.json", "--api-base-url", "http://localhost"],
    ["--verbose", "p.py", "--json", "--json"],
]
UNUSUAL = [
    [],
    ["p.py", "q.py"],
    ["p.py", "-c", "1"],
    ["p.py", "--timeout", "3"],
    ["p.py", "--isolation", "landlock"],
    ["p.py", "--tools"],
    ["p.py", "--ledger", "a", "--ledger", "b"],
    ["--tools=a.py", "p.py"],
    ["--help"],
    ["--", "p.py"],
]


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_what_is_read_without_typer_is_what_typer_reads(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[RunOptions] = []
    monkeypatch.setattr(run, "run_program", lambda options: read.append(options) or 0)

    assert app.run_command(["run", *line]) == 0
    assert plain_options(line) == read[0]


@pytest.mark.parametrize("line", UNUSUAL, ids=" ".join)
def test_whatever_else_is_said_is_left_to_typer(line: list[str]) -> None:
    assert plain_options(line) is None


@pytest.mark.parametrize(
    ("text", "modules"),
    [
        ("print(1)", ()),
        ("import pandas as pd", ("pandas",)),
        ("if x:\n    from numpy.linalg import inv", ("numpy",)),
        ("from scipy import stats", ("scipy", "scipy.stats", "scipy.optimize")),
        ("import os, sys\nimport pandas_evil, subprocess", ()),
        ("# import pandas", ()),
    ],
)
def test_only_libraries_of_our_own_are_loaded_ahead(text: str, modules: tuple[str, ...]) -> None:
    assert modules_of(text) == modules


def test_a_sandbox_that_was_begun_is_used_only_if_it_is_the_one_that_is_needed(folder: Path) -> None:
    limits = Limits(output_bytes=8 * 2**20)
    launch_early(RunOptions(code="print(1)"))
    launch_early(RunOptions(code="import pandas"))
    launch_early(RunOptions(program="missing.py"))
    first, second = fast_start._sandboxes

    used = take_sandbox("print(1)", limits, isolation="namespace")

    assert used is first
    assert fast_start._sandboxes == []
    assert second.launched.process.returncode is not None
    used.give_up()
    assert used.launched.process.returncode is not None


@pytest.mark.parametrize(
    ("text", "mounted"),
    [
        ("print(1)", []),
        ("import pandas", []),
        ("import zebra.stripes", ["zebras-1"]),
        ("import zebra\nfrom okapi import a, b\nimport kudu", ["antelopes-1"]),
        ("import lion", []),
    ],
)
def test_the_sandbox_has_the_one_installed_set_that_the_program_names(text: str, mounted: list[str]) -> None:
    sets = [
        InstalledSet(name="zebras-1", folder="/", modules=frozenset({"zebra"})),
        InstalledSet(name="antelopes-1", folder="/", modules=frozenset({"okapi", "kudu"})),
        # What is preloaded is imported in a server of its own.
        InstalledSet(name="cats-1", folder="/", modules=frozenset({"lion"}), preload=("lion",)),
    ]

    used = take_sandbox(text, Limits(), isolation="namespace", sets=sets)

    used.give_up()
    assert [one.name for one in used.plan.sets] == mounted
    assert used.has("bare")
    assert [one.name for one in sets if used.has(one.name)] == mounted


@pytest.mark.long
def test_libraries_that_a_program_names_are_there_and_others_can_be_imported(cli: Cli) -> None:
    text = (
        "import numpy as np, pandas as pd\nimport json, openpyxl\nprint(pd.DataFrame({'a': np.arange(3)})['a'].sum())"
    )
    by_name = "import importlib\nprint(importlib.import_module('pandas').Series([1, 2]).sum())"

    assert cli("run", "-c", text).stdout == b"3\n"
    assert cli("run", "-c", by_name).stdout == b"3\n"


@pytest.mark.long
def test_a_command_that_fails_after_its_sandbox_was_begun_says_why(cli: Cli, folder: Path) -> None:
    done = cli("run", "-c", "1", "--tools", "missing.py")

    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"toolfold: no tools file 'missing.py'; check the path\n"
    assert os.listdir(folder) == ["tools.py"]
