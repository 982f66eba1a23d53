"""A console as people start it, programs beside it in processes of their own, and a browser."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

TOOLS = '''
import asyncio
import os
from pathlib import Path

from toolfold import tool

MADE = Path(__file__).with_name("made.txt")


def made(what: str) -> None:
    with MADE.open("a") as file:
        file.write(what + "\\n")


@tool
async def fetch(number: int) -> dict[str, int]:
    """Fetches a number, slowly."""
    made(f"fetch {number}")
    await asyncio.sleep(0.5)
    return {"number": number, "square": number * number}


@tool
async def convert(text: str) -> float:
    """A number from a text."""
    made(f"convert {text}")
    return float(text)


@tool
async def pay(amount: int, to: str) -> str:
    """Pays."""
    made(f"pay {amount} {to}")
    return f"paid {amount} to {to}"


@tool
async def echo(text: str) -> str:
    """Says it again. <img src=x onerror=alert(3)><script>alert(4)</script>"""
    return text
'''
LIBRARY = """
import asyncio
import sys
from pathlib import Path

import shop
from toolfold import Runtime
from toolfold.ledger.remote_approval import LedgerApproval
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.tools.policy import Policy


async def main() -> None:
    ledger = SqliteLedger(Path("ledger.sqlite"))
    approve = LedgerApproval(ledger, wait_seconds=600)
    async with Runtime([shop.pay], ledger=ledger, policy=Policy(ask=["pay"]), approve=approve) as runtime:
        for ended in await asyncio.gather(*(runtime.run(Path(name).read_text()) for name in sys.argv[1:])):
            print(ended.stdout, end="")
    await ledger.close()


asyncio.run(main())
"""
CONFIG = """
tools: {modules: [shop.py], ask: [pay]}
approvals: console
ledger: {where: ledger.sqlite}
"""


class Rig:
    """One folder with a config, tools that count what reaches them, and a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._console: subprocess.Popen[str] | None = None
        self._programs: list[subprocess.Popen[str]] = []
        (folder / "shop.py").write_text(TOOLS)
        (folder / "toolfold.yaml").write_text(CONFIG)
        (folder / "made.txt").touch()
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        (folder / "state").mkdir()

    @property
    def made(self) -> list[str]:
        """What reached the tools."""
        return (self.folder / "made.txt").read_text().splitlines()

    def open(self) -> str:
        """Start the console, on the port that it had; the link."""
        self._console = self._start("-m", "toolfold", "console", "--port", str(self.port), stderr=subprocess.PIPE)
        assert self._console.stderr is not None
        line = _line(self._console.stderr, "console at")
        link = re.search(r"http://\S+", line)
        assert link is not None, line
        found = re.search(r":(\d+)/", link[0])
        assert found is not None
        self.port = int(found[1])
        return link[0]

    def kill(self) -> None:
        """As `kill -9` does."""
        assert self._console is not None
        self._console.send_signal(signal.SIGKILL)
        self._console.wait()
        assert self._console.stderr is not None
        self._console.stderr.close()

    def write(self, name: str, text: str) -> None:
        """A file in the folder."""
        (self.folder / name).write_text(text)

    def run(self, text: str, name: str) -> "subprocess.Popen[str]":
        """A program through the command line."""
        self.write(name, text)
        return self.start("run", name)

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """A command of toolfold."""
        process = self._start("-m", "toolfold", *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._programs.append(process)
        return process

    def start_library(self, *names: str) -> "subprocess.Popen[str]":
        """One process that runs these programs at once, as code of its own would."""
        self.write("library.py", LIBRARY)
        return self.start_script("library.py", *names)

    def start_script(self, *arguments: str) -> "subprocess.Popen[str]":
        """Code of its own."""
        process = self._start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._programs.append(process)
        return process

    def close(self) -> None:
        for process in (*self._programs, *([] if self._console is None else [self._console])):
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    # Any: options of `Popen`.
    def _start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=self._environment, text=True, **options)


def _line(stream: IO[str], words: str) -> str:
    for line in stream:
        if words in line:
            return line
    raise AssertionError("the console did not start")


@contextmanager
def rig(folder: Path) -> Iterator[Rig]:
    """Closed at the end, whatever happens."""
    made = Rig(folder)
    try:
        yield made
    finally:
        made.close()
