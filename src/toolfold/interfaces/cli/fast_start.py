"""Fast path of `toolfold run`: the sandbox is launched first, and common options are parsed without typer.

To load typer and the options of all commands takes a fifth of the whole command. Whatever is unusual goes that way.
Only this module and the process engine know of sandboxes that are launched before their engine is made.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolfold.config.discovery import find_config
from toolfold.engines.process.zygote_launch import SingleUseServer
from toolfold.errors import ToolfoldError
from toolfold.interfaces.cli.program_inputs import RunOptions, limits_for, read_program

if TYPE_CHECKING:
    from toolfold.interfaces.cli.command_setup import EngineChoice
    from toolfold.models import InstalledSet, Limits

_REPEATABLE: Final = {"--tools": "tools", "--api": "apis", "--api-base-url": "api_urls", "--file": "files"}
_SINGLE: Final = {"-c": "code", "--ledger": "ledger", "--out": "out"}
_FLAGS: Final = {"--json": "as_json", "-v": "is_verbose", "--verbose": "is_verbose"}
_sandboxes: Final[list[SingleUseServer]] = []


def plain_options(arguments: Sequence[str]) -> RunOptions | None:
    """The options of `run`, where there are only the usual ones and each is written out; else `None`."""
    # Any: each option has its own type, which mypy cannot follow through the tables above.
    options: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if word in _FLAGS:
            options[_FLAGS[word]] = True
            continue
        is_program = word == "-" or not word.startswith("-")
        key = "program" if is_program else _REPEATABLE.get(word) or _SINGLE.get(word)
        value = word if is_program else next(words, None)
        if key is None or value is None or (key in options and word not in _REPEATABLE):
            return None
        parsed = Path(value) if key in ("files", "out") else value
        options[key] = (*options.get(key, ()), parsed) if word in _REPEATABLE else parsed
    return RunOptions(**options) if ("program" in options) != ("code" in options) else None


def launch_early(options: RunOptions) -> None:
    """Launch the sandbox that these options most likely need; harmless if it is not needed."""
    if sys.platform != "linux" or options.program == "-" or options.language != "python":
        return
    # What is wrong is told later, by the command itself.
    with suppress(ToolfoldError, OSError):
        limits = limits_for(None, as_json=options.as_json)
        text = options.code if options.code is not None else read_program(options.program, limits)
        if find_config() is None:
            _sandboxes.append(SingleUseServer.launch(text, limits, isolation="namespace"))


@contextmanager
def early_sandbox(choice: EngineChoice, text: str, limits: Limits) -> Iterator[None]:
    """Build the sandbox while the rest is loaded, where it is the process engine's without the host's libraries."""
    options = choice["engine_options"]
    if choice["engine"] not in ("process", "auto") or sys.platform != "linux" or options.get("host_libraries"):
        yield
        return
    sandbox = take_sandbox(text, limits, isolation=options["isolation"], sets=options.get("library_sets", ()))
    options["_single"] = sandbox
    try:
        yield
    finally:
        sandbox.give_up()


def take_sandbox(text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> SingleUseServer:
    """The sandbox for this program, on its way."""
    while _sandboxes:
        sandbox = _sandboxes.pop()
        if sandbox.fits(text, limits, isolation=isolation, sets=sets):
            return sandbox
        sandbox.give_up()
    return SingleUseServer.launch(text, limits, isolation=isolation, sets=sets)
