"""A second try for a few tests, which hides nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FLAKY = """
from pathlib import Path

def test_a_race():
    mark = Path("was-here")
    was_here = mark.exists()
    mark.touch()
    assert was_here

def test_sound():
    pass
"""
BROKEN = "def test_broken():\n    assert False\n"
MANY = "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_broken(n):\n    assert False\n"


def tried(folder: Path, text: str) -> tuple[int, list[str]]:
    (folder / "test_it.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\n")
    run = subprocess.run(
        [sys.executable, "-m", "tests.again", "-q", "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = [line for line in run.stdout.splitlines() if line.startswith(("once more", "UNSTABLE"))]
    return run.returncode, told


@pytest.mark.long
def test_one_that_passes_alone_is_named(tmp_path: Path) -> None:
    assert tried(tmp_path, FLAKY) == (
        0,
        [
            "once more, alone: 1 that failed",
            "UNSTABLE test_it.py::test_a_race: failed beside other tests, passed alone",
        ],
    )


@pytest.mark.long
def test_one_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    assert tried(tmp_path, BROKEN) == (1, ["once more, alone: 1 that failed"])


@pytest.mark.long
def test_many_failures_are_no_accident(tmp_path: Path) -> None:
    assert tried(tmp_path, MANY) == (1, [])


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_no_accident_either(tmp_path: Path) -> None:
    assert tried(tmp_path, "import nothing_of_that_name\n") == (2, [])
