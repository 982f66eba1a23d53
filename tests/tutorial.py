"""The tutorial, followed to the letter as the site shows it: `python -m tests.tutorial build/site/tutorial.html`.

Nothing but the rendered page is read: titled blocks are files, `$` lines are commands with their output, all other blocks
are commands. They run in one shell that starts in a clone. Then the command that the page hands to Claude Code is started
as Claude Code may start it: in another folder, without the environment of that shell.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import IO

from mcp import Client, StdioServerParameters

ROOT = Path(__file__).parents[1]
DONE = "--done--"
CLAUDE = f"#!{sys.executable}\nimport json, sys\njson.dump(sys.argv[1:], open(__file__ + '.json', 'w'))\n"


class Blocks(HTMLParser):
    """Code blocks of a page, in order, each with its title."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.blocks: list[tuple[str, str]] = []
        self._tags: list[str] = []
        self._title = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag == "span" and ("class", "filename") in attributes:
            self._tags.append("title")
        elif tag == "pre":
            self._tags.append("code")
            self.blocks.append((self._title, ""))
            self._title = ""

    def handle_endtag(self, tag: str) -> None:
        if self._tags and tag == {"title": "span", "code": "pre"}[self._tags[-1]]:
            self._tags.pop()

    def handle_data(self, data: str) -> None:
        if self._tags[-1:] == ["title"]:
            self._title += data
        elif self._tags:
            title, text = self.blocks[-1]
            self.blocks[-1] = (title, text + data)


class Shell:
    """A shell that stays open between commands, as a reader's does."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"], cwd=folder, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def start(self, command: str) -> None:
        self._pipes[0].write(f'{command}\necho "{DONE} $?"\n')
        self._pipes[0].flush()

    def line(self) -> str:
        line = self._pipes[1].readline()
        if not line:
            raise SystemExit("tutorial: the shell has ended")
        return line

    def run(self, command: str) -> tuple[str, int]:
        """Output and exit code."""
        self.start(command)
        output = ""
        while not (line := self.line()).startswith(DONE):
            output += line
        return output, int(line.removeprefix(DONE))

    def interrupt(self) -> None:
        """Ctrl-C, for the command in the foreground."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        os.kill(int(children[-1]), 2)

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        self._process.wait()


def check(claim: bool, command: str, output: str) -> None:
    if not claim:
        raise SystemExit(f"tutorial: {command!r} did not do what the page says; it printed:\n{output}")


def follow(blocks: list[tuple[str, str]], folder: Path, environment: dict[str, str]) -> int:
    """The number of commands, all of which did what the page says; or the exit with the first that did not."""
    shell, commands = Shell(folder / "clone", environment), 0
    for title, text in blocks:
        if title:
            shell.run(f"cat > {title} <<'{DONE}EOF'\n{text}{DONE}EOF")
            continue
        if text.startswith("$ "):
            for part in text.removeprefix("$ ").split("\n$ "):
                command, _, expected = part.partition("\n")
                output, _ = shell.run(command)
                check(output.rstrip() == expected.rstrip(), command, output)
                commands += 1
            continue
        for command in text.splitlines():
            follow_command(shell, command)
            commands += 1
    shell.close()
    return commands


def follow_command(shell: Shell, command: str) -> None:
    if " ID " in command:
        runs, _ = shell.run("toolfold runs --json")
        command = command.replace(" ID ", f" {json.loads(runs)[0]['execution_id']} ")
    if command.startswith("toolfold console "):
        shell.start(command)
        while "http" not in (line := shell.line()):
            check(not line.startswith(DONE), command, line)
        with urllib.request.urlopen(line[line.index("http") :].split()[0]) as answer:
            check(b"<title>" in answer.read(), command, line)
        shell.interrupt()
        while not (line := shell.line()).startswith(DONE):
            check("Traceback" not in line, command, line)
        return
    output, code = shell.run(command)
    if code and command.startswith("pip install "):
        print(f"{output}NOT RUN: toolfold could not be installed; the lines above say why")
        raise SystemExit(0)
    check(code == 0, command, output)


async def ask_as_claude(command: list[str], program: str) -> str:
    """What the program prints, sent to the command from another folder, in the environment of a desktop."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": os.environ["HOME"]}
    server = StdioServerParameters(command=command[0], args=command[1:], cwd="/", env=environment)
    async with Client(server) as client:
        result = await client.call_tool("execute_program", {"code": program})
    return getattr(result.content[0], "text", "")


def main() -> int:
    if not Path(sys.argv[1]).exists():
        print("NOT RUN: no site; `make docs` says why")
        return 0
    blocks = Blocks(Path(sys.argv[1]).read_text(encoding="utf-8")).blocks
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns(".*", "build", "bench", "tests", "__pycache__")
        shutil.copytree(ROOT, folder / "clone", ignore=ignored)
        claude = folder / "bin" / "claude"
        claude.parent.mkdir()
        claude.write_text(CLAUDE)
        claude.chmod(0o755)
        environment = {
            **os.environ,
            "PATH": f"{claude.parent}:{os.environ['PATH']}",
            "COLUMNS": "80",
            "BROWSER": "true",
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        commands = follow(blocks, folder, environment)
        added = json.loads(Path(f"{claude}.json").read_text())
        program = dict(blocks)["worth.py"]
        answer = asyncio.run(ask_as_claude(added[added.index("--") + 1 :], program))
    check(answer == "[Script executed successfully]\n4.0\n", "the program in Claude Code", answer)
    print(f"tutorial: {commands} commands did what the page says, and the program ran from another folder")
    return 0


if __name__ == "__main__":
    sys.exit(main())
