"""The command `toolfold` in a process of its own, as a user starts it."""

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import toolfold

Cli = Callable[..., subprocess.CompletedProcess[bytes]]

COMMAND = [sys.executable, "-m", "toolfold"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(toolfold.__file__).parents[1])}

TOOLS = '''
import threading, time, toolfold

@toolfold.tool
async def price(ticker: str) -> float:
    """The last price of one share."""
    return {"ACME": 12.5, "INIT": 80.0}[ticker]

@toolfold.tool
def block(path: str) -> None:
    """Never comes back."""
    open(path, "w").close()
    threading.Event().wait()
'''


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Commands that a test runs in its own process may be told to be verbose."""
    logger = logging.getLogger("toolfold")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a tools file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


@pytest.fixture
def cli(folder: Path) -> Cli:
    """Run `toolfold ARGUMENTS`; `program` is the text of its stdin."""

    def run(*arguments: str, program: str = "") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*COMMAND, *arguments], input=program.encode(), capture_output=True, env=ENVIRONMENT, check=False
        )

    return run
