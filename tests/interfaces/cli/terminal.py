"""A command at a terminal, and the person who reads it and types."""

import os
import pty
import re
import subprocess
from types import TracebackType

from tests.interfaces.cli.conftest import COMMAND, ENVIRONMENT


class AtTerminal:
    """`toolfold ARGUMENTS` with a terminal for stdin, stdout and stderr."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=slave, stdout=slave, stderr=slave, env={**ENVIRONMENT, **environment},
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def __enter__(self) -> "AtTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def until(self, text: str) -> str:
        """What is shown up to this text, since the last time."""
        while text not in self.seen:
            self.seen += self._read()
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def answer(self, line: str) -> None:
        """Read the question, then type this."""
        self.until("approve? ")
        os.write(self._master, line.encode() + b"\n")

    def rest(self) -> tuple[int, str]:
        """The exit code, and what is shown up to it, without the timings of calls."""
        try:
            while True:
                self.seen += self._read()
        except OSError:  # the other side is closed
            return self.process.wait(), re.sub(r"\d+ ms", "N ms", self.seen)

    def _read(self) -> str:
        return os.read(self._master, 65536).decode().replace("\r\n", "\n")
