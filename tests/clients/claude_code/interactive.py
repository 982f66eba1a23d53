"""Forty questions by hand: `make test NAME=claude-questions`, with the npm packages in the folder given.

The real Claude Code in a terminal of tmux, as a person has it: each form is read from the screen and answered with key
presses. It stops after ten rounds of questions in one request, so a program of forty must come to an end before that.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.clients.claude_code.cli import (
    OPTIONS,
    Turn,
    environment_of,
    program_of,
    text,
    use_of,
    write_inputs,
)
from tests.clients.claude_code.deciding import PAYING
from tests.clients.claude_code.model import Model
from toolfold.interfaces.mcp.client_questions import CLIENT_ROUNDS, NO_MORE_QUESTIONS

GIVES_UP = "still required input"
"""What the CLI says of a server that asks for longer than it wants to be asked."""
NEXT = {"code": "print('next')", "session": "work"}
STEP_SECONDS = 60.0
"""For what one key does, on a busy machine."""
MISSED_SECONDS = 5.0
"""After which a key without any effect is pressed again."""


def payments(first: int, count: int) -> Turn:
    """A program that asks so many times, one after another."""
    code = (
        f"for n in range({first}, {first + count}):\n    try:\n        print(await pay(amount=n, to='ada'))\n"
        "    except ToolError as error:\n        print(n, error)"
    )
    return {"code": code, "session": "work"}


class Terminal:
    """The CLI on a screen of tmux.

    Args:
        command: What runs there.
        folder: Where.
    """

    def __init__(self, command: list[str], folder: Path) -> None:
        self._socket = str(folder / "tmux")
        size = ["-x", "120", "-y", "50"]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "-c", str(folder), shlex.join(command))
        self.screens: list[str] = []

    def screen(self) -> str:
        self.screens.append(self._tmux("capture-pane", "-p").replace("\N{NO-BREAK SPACE}", " "))
        return self.screens[-1]

    def press(self, key: str, until: str = "") -> None:
        """Press a key, then wait until the screen shows this."""
        self._tmux("send-keys", key)
        self.wait(lambda screen: until in screen, until)

    def repeat(self, key: str, claim: Callable[[str], bool]) -> None:
        """Press a key until the screen is as it should be: on a busy machine the CLI may miss one while it draws."""
        over = time.monotonic() + STEP_SECONDS
        while not claim(before := self.screen()):
            assert time.monotonic() < over, f"{key} did nothing:\n{before}"
            self._tmux("send-keys", key)
            seen = time.monotonic() + MISSED_SECONDS
            while _form(self.screen()) == _form(before) and time.monotonic() < seen:
                time.sleep(0.05)

    def type(self, line: str) -> None:
        """Type a prompt, and send it."""
        self._tmux("send-keys", "-l", line)
        self.wait(lambda screen: f"❯ {line}" in screen, line)
        self.press("Enter")

    def wait(self, claim: Callable[[str], bool], what: str) -> None:
        over = time.monotonic() + STEP_SECONDS
        while not claim(screen := self.screen()):
            assert time.monotonic() < over, f"the screen never showed {what!r}:\n{screen}"
            time.sleep(0.05)

    def close(self) -> None:
        subprocess.run(["tmux", "-S", self._socket, "kill-server"], check=False, capture_output=True)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(["tmux", "-S", self._socket, *arguments], check=True, capture_output=True, text=True)
        return done.stdout


def say_yes(terminal: Terminal, n: int, *, to_the_tool: bool = False) -> None:
    """Answer the form for payment `n`: Accept as it is shown, or for the tool for the rest of the program."""
    _meet(terminal, n)
    if to_the_tool:
        _choose(terminal, "allow this tool for the rest of this program")
    _accept(terminal, n)


def say_no(terminal: Terminal, n: int) -> None:
    """Choose the refusal in the form for payment `n`, and accept the form."""
    _meet(terminal, n)
    _choose(terminal, "refuse this call")
    _accept(terminal, n)


def _choose(terminal: Terminal, choice: str) -> None:
    terminal.press("Right", until="❯ ◉ allow this call")
    terminal.repeat("Down", lambda screen: f"❯ ◯ {choice}" in screen)
    terminal.press("Enter")
    shown = re.compile(f"Your answer: (▸ )?{choice}")
    terminal.wait(lambda screen: bool(shown.search(screen)), choice)


def _accept(terminal: Terminal, n: int) -> None:
    terminal.repeat("Down", lambda screen: "❯ Accept" in screen)
    terminal.repeat("Enter", lambda screen: not (_question(n) in screen and "❯ Accept" in screen))


def say_nothing(terminal: Terminal, n: int) -> None:
    """Close the form with Escape."""
    _meet(terminal, n)
    terminal.repeat("Escape", lambda screen: _question(n) not in screen)


def _meet(terminal: Terminal, n: int) -> None:
    asked = _question(n)
    terminal.wait(lambda screen: asked in screen and "Your answer: ▸ allow this call" in screen, asked)


def _form(screen: str) -> str:
    """Without what is above it, where a clock runs."""
    return screen.rpartition("requests your input")[2]


def _question(n: int) -> str:
    return f'pay with {{"amount": {n}, "to": "ada"}}'


@dataclass(frozen=True)
class Sitting:
    """One session at the terminal: what the model plays, what the person presses, what must have been shown."""

    name: str
    programs: list[Turn]
    answers: Callable[[Terminal], None]
    shown: list[str]
    paid: int


def each(count: int, *, from_round: int = 0) -> Callable[[Terminal], None]:
    def answers(terminal: Terminal) -> None:
        for n in range(from_round, count):
            say_yes(terminal, n)

    return answers


def the_tenth_for_the_tool(terminal: Terminal) -> None:
    each(CLIENT_ROUNDS - 1)(terminal)
    terminal.wait(lambda screen: "This is the last question that your client takes" in screen, "the last question")
    say_yes(terminal, CLIENT_ROUNDS - 1, to_the_tool=True)


def one_is_closed(terminal: Terminal) -> None:
    say_yes(terminal, 0)
    say_nothing(terminal, 1)
    for n in range(2, CLIENT_ROUNDS):
        say_yes(terminal, n)


def accept_and_refuse(terminal: Terminal) -> None:
    say_yes(terminal, 0)
    say_no(terminal, 1)
    say_yes(terminal, 2)


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in ("[Script executed successfully]", *lines))


def _paid(numbers: Iterator[int] | range) -> list[str]:
    return [f"paid {n} to ada" for n in numbers]


def _refused(numbers: range) -> list[str]:
    return [f"{n} 'pay' was denied: {NO_MORE_QUESTIONS}" for n in numbers]


SITTINGS = [
    Sitting(
        "3 forms: Accept, a refusal, Accept",
        [payments(0, 3), NEXT],
        accept_and_refuse,
        [_lines("paid 0 to ada", "1 'pay' was denied: the user said no", "paid 2 to ada"), _lines("next")],
        2,
    ),
    Sitting(
        "40 in one program, each for itself",
        [payments(0, 40), NEXT],
        each(CLIENT_ROUNDS),
        [_lines(*_paid(range(10)), *_refused(range(10, 40))), _lines("next")],
        10,
    ),
    Sitting(
        "40 in one program, the last for the tool",
        [payments(0, 40), NEXT],
        the_tenth_for_the_tool,
        [_lines(*_paid(range(40))), _lines("next")],
        40,
    ),
    Sitting(
        "40 in four programs, each for itself",
        [*(payments(first, 10) for first in range(0, 40, 10)), NEXT],
        each(40),
        [*(_lines(*_paid(range(first, first + 10))) for first in range(0, 40, 10)), _lines("next")],
        40,
    ),
    Sitting(
        "40 in one program, one form closed",
        [payments(0, 40), NEXT],
        one_is_closed,
        [
            _lines(
                "paid 0 to ada", "1 'pay' was denied: the user answered 'cancel'", *_paid(range(2, 10)),
                *_refused(range(10, 40)),
            ),
            _lines("next"),
        ],
        9,
    ),
]  # fmt: skip


def sit(sitting: Sitting, packages: Path) -> None:
    """One life of the CLI; raises what is not as it should be."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the CLI may be writing its last words
        work = Path(folder)
        _prepare(work)
        # A word in between, and then a prompt of its own: the session takes both.
        model = Model([*(use_of(turn, work) for turn in sitting.programs), None, use_of(NEXT, work)])
        with model.serving() as address, _terminal(work, address, packages) as terminal:
            _begin(terminal, model)
            sitting.answers(terminal)
            _turns(terminal, model, len(sitting.programs) + 1)
            terminal.type("again")
            _turns(terminal, model, len(sitting.programs) + 3)
        shown = [text(content) for _, content in model.shown()]
        assert shown == [*sitting.shown, _lines("next")], shown
        assert not any(GIVES_UP in screen for screen in terminal.screens), "the CLI gave up"
        assert len((work / "paid.txt").read_text().splitlines()) == sitting.paid


def _begin(terminal: Terminal, model: Model) -> None:
    """Send prompts until one finds the server connected: the CLI does not wait for it."""
    terminal.wait(lambda screen: "❯" in screen, "a prompt")
    for n in count(1):
        prompt = f"go {n}"
        terminal.type(prompt)
        terminal.wait(partial(_is_answered, model, prompt), "an answer")
        if model.requests:
            return


def _is_answered(model: Model, prompt: str, screen: str) -> bool:
    return bool(model.requests) or "● done" in screen.rpartition(f"❯ {prompt}")[2]


def _turns(terminal: Terminal, model: Model, count: int) -> None:
    """Until the model has been asked so many times."""
    terminal.wait(lambda _: len(model.requests) >= count, f"turn {count}")


def _prepare(work: Path) -> None:
    (work / "pay.py").write_text(PAYING)
    tools = {"modules": ["pay.py"], "ask": ["pay"]}
    write_inputs(work, {"servers": [], "tools": tools, "ledger": {"where": "ledger.sqlite"}}, has_hook=False)
    # What a person has answered when they first started it.
    known: dict[str, Any] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": ["not-a-key"], "rejected": []},
        "projects": {str(work): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}},
    }
    (work / "home" / ".claude" / ".claude.json").write_text(json.dumps(known))


@contextmanager
def _terminal(work: Path, address: str, packages: Path) -> Iterator[Terminal]:
    variables = {**environment_of(work, address), "TERM": "xterm-256color"}
    command = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    terminal = Terminal([*command, program_of(packages, "claude"), *OPTIONS], work)
    try:
        yield terminal
    finally:
        terminal.close()


def main() -> int:
    """Run every sitting, or those that have the words after the folder in their names; exit 1 if one failed."""
    if shutil.which("tmux") is None:
        print("NOT RUN: tmux is not installed")
        return 0
    failures = 0
    for sitting in (one for one in SITTINGS if all(word in one.name for word in sys.argv[2:])):
        began = time.perf_counter()
        try:
            sit(sitting, Path(sys.argv[1]).resolve())
            said = f"{sitting.paid} calls made, and the session free at once"
        except AssertionError as error:
            failures += 1
            said = f"FAILED {error}"
        print(f"  {sitting.name:<42}{time.perf_counter() - began:5.1f} s  {said}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
