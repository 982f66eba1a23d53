"""What `make` would do, without doing it: for a newcomer, for CI, and by the names of suites and benchmarks."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "design").glob("*.md")),
]
COMMAND = re.compile(r"`make ([a-z-]+)(?: NAME=([a-z-]+))?")


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """As if called from a shell, also where `make` runs the tests."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        ["make", *arguments],
        cwd=ROOT,
        env=env | {"LC_ALL": "C"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def targets() -> list[str]:
    return re.findall(r"^  make ([a-z-]+) ", make("help").stdout, re.MULTILINE)


def names(target: str) -> list[str]:
    return (
        make("--dry-run", target, "NAME=unknown").stderr.removesuffix(".  Stop.\n").partition("there are: ")[2].split()
    )


def test_the_demos_install_what_they_need_and_no_more(tmp_path: Path) -> None:
    demo, console = (make("--dry-run", f"VENV={tmp_path / 'venv'}", goal).stdout for goal in ("demo", "demo-console"))

    assert ["-r requirements/dev.txt" in text for text in (demo, console)] == [False, False]
    assert ["--editable '.[http]'" in text for text in (demo, console)] == [False, True]


def test_help_fits_on_a_screen() -> None:
    shown = targets()

    assert len(shown) == len(set(shown)) <= 15


def test_without_a_name_test_runs_what_ci_runs() -> None:
    # Some shells have a variable NAME of their own.
    result = make("--dry-run", "test", NAME="hold")

    assert re.findall(r"python -m (ruff|mypy|mkdocs|tests[a-z._]*)", result.stdout) == [
        *("ruff", "ruff", "ruff", "mypy", "mypy", "tests.again", "mkdocs"),
        *("tests.tutorial", "tests.notebook", "tests.console", "tests.clients.librechat", "tests.servers", "tests.ray"),
        *("tests.again", "tests.platforms"),
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["requirements", "NAME=other"], "make requirements: no NAME 'other'; there are: package peers"),
        (["tests", "NAME=hold"], "make tests: no NAME 'hold'; there are: none"),
        (["test-hold"], "no target 'test-hold'; say: make test NAME=hold"),
    ],
)
def test_a_name_that_is_not_there_is_refused_in_one_line(arguments: list[str], error: str) -> None:
    result = make("--dry-run", *arguments)

    assert (result.returncode, result.stdout, result.stderr.partition(" *** ")[2]) == (2, "", f"{error}.  Stop.\n")


def test_the_guide_for_contributors_has_every_name() -> None:
    rows = re.findall(
        r"^\|[^|]*\| `make ([a-z-]+) NAME=([a-z-]+)` \|", (ROOT / "CONTRIBUTING.md").read_text(), re.MULTILINE
    )

    assert sorted(rows) == sorted(
        [
            *(("test", name) for name in names("test")),
            *(("bench", name) for name in names("bench")),
            ("requirements", "peers"),
        ]
    )


def test_every_command_in_the_guides_exists() -> None:
    known = {(target, "") for target in targets()}
    known |= {(target, name) for target in ("test", "bench", "requirements") for name in names(target)}
    written = {command for page in GUIDES for command in COMMAND.findall(page.read_text(encoding="utf-8"))}

    assert written - known == set()
