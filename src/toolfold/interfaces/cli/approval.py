"""Approval of tool calls at the command line: by the person at the terminal, by `--yes`, or denied.

A question names the call with all of its arguments. The answer may stand for further calls of the program.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Final

from toolfold.interfaces.cli.live_terminal import drawing_area
from toolfold.interfaces.cli.outcome_output import format_call, printable_name
from toolfold.models import Call, ToolSpec
from toolfold.tools.router_steps import NOBODY_CAN_APPROVE
from toolfold.tools.tool import Approve, Decision

_SHOWN_ARGUMENTS: Final = 4000
_LONGEST_LINE: Final = 4096
_MOST_CALLS: Final = 1_000_000
_CHOICES: Final = """\
  y  yes, this call
  a  yes, and further calls with the same arguments
  t  yes, and every further call of {tool} in this program
  9  yes, for this many calls of {tool} (any number)
  n  no; you can add a reason
"""


class Terminal:
    """The terminal of whoever started the command; also where the program itself came from stdin."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._turn = asyncio.Lock()

    async def __call__(self, call: Call, _: ToolSpec) -> Decision:
        return await self.ask(call)

    def of(self, _execution_id: str, _epoch: int, pause_clock: Callable[[], AbstractContextManager[None]]) -> Approve:
        """Approval for one program, whose clock stands still while somebody thinks."""

        async def approve(call: Call, _: ToolSpec) -> Decision:
            with pause_clock():
                return await self.ask(call)

        return approve

    async def ask(self, call: Call) -> Decision:
        """Ask one question at a time, until it is answered."""
        async with self._turn:
            with drawing_area.reserve():
                return await self._answer(call)

    async def _answer(self, call: Call) -> Decision:
        choices = _CHOICES.format(tool=printable_name(call.tool))
        inside = f" of the saved program in call {call.within}" if call.within else ""
        place = f" (line {call.line}{inside})" if call.line else ""
        say(f"toolfold: {format_call(call, _SHOWN_ARGUMENTS)} needs your approval{place}\n{choices}")
        self._discard_typed()
        while True:
            say("approve? ")
            line = await self._line()
            if line is None:
                return Decision(approved=False, reason="nobody answered at the terminal", by=user())
            if (decision := parse_answer(line)) is not None:
                return decision
            say(f"toolfold: {line.strip()[:40]!r} is not an answer; enter y, a, t, n or a number of calls\n")

    async def _line(self) -> str | None:
        """The next line that is typed; `None` at the end of input."""
        loop = asyncio.get_running_loop()
        try:
            if sys.platform == "win32":  # where a loop cannot wait for a console
                typed = await loop.run_in_executor(None, os.read, self._handle, _LONGEST_LINE)
            else:
                ready = asyncio.Event()
                loop.add_reader(self._handle, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._handle)
                typed = os.read(self._handle, _LONGEST_LINE)
        except OSError:
            return None  # the terminal is gone
        return typed.decode(errors="replace") if typed else None

    def _discard_typed(self) -> None:
        """What was typed before a question is no answer to it."""
        if sys.platform == "win32":
            import msvcrt

            while msvcrt.kbhit():
                msvcrt.getwch()
        else:
            import termios

            with suppress(termios.error):
                termios.tcflush(self._handle, termios.TCIFLUSH)


def approve_at_terminal(*, is_yes: bool) -> Approve:
    """Ask at the terminal; `is_yes` approves everything without asking."""
    if is_yes:
        return _approve_all
    handle = terminal_handle()
    return _deny_all() if handle is None else Terminal(handle)


def terminal_handle() -> int | None:
    """Handle to read answers from; `None` if nobody would see a question."""
    if not sys.stderr.isatty():
        return None
    if sys.stdin is not None and sys.stdin.isatty():
        return sys.stdin.fileno()
    try:
        if sys.platform == "win32":
            return os.open("CONIN$", os.O_RDWR)
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None


def parse_answer(line: str) -> Decision | None:
    """Decision in a typed line; `None` if it is not an answer."""
    word, _, rest = line.strip().partition(" ")
    match word.lower():
        case "y" | "yes":
            return Decision(approved=True, by=user())
        case "a":
            return Decision(approved=True, covers="arguments", by=user())
        case "t":
            return Decision(approved=True, covers="tool", by=user())
        case "n" | "no":
            return Decision(approved=False, reason=rest.strip(), by=user())
    if word.isascii() and word.isdigit() and len(word) <= len(str(_MOST_CALLS)) and 0 < int(word) <= _MOST_CALLS:
        return Decision(approved=True, covers="tool", calls=int(word), by=user())
    return None


def user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no such name on this system, or no list of them
        return str(os.getuid()) if sys.platform != "win32" else "unknown"


def say(text: str) -> None:
    """Print to the user, on stderr."""
    print(text, end="", file=sys.stderr, flush=True)


async def _approve_all(_call: Call, _spec: ToolSpec) -> Decision:
    return Decision(approved=True, by=f"{user()} (--yes)")


def _deny_all() -> Approve:
    reported_tools: set[str] = set()

    async def approve(call: Call, _: ToolSpec) -> Decision:
        if call.tool not in reported_tools:
            reported_tools.add(call.tool)
            advice = "there is no terminal to ask on; --yes approves every call"
            say(f"toolfold: {call.tool!r} needs approval, but {advice}\n")
        return NOBODY_CAN_APPROVE

    return approve
