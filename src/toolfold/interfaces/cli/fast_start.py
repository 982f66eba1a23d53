"""Fast path of `toolfold run`: the sandbox is launched first, and common options are parsed without typer.

To read all options of all commands takes as long as to build the sandbox. Whatever is not as usual goes the long way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolfold.config.find import find_config
from toolfold.engines.registry import SingleUseServer
from toolfold.errors import ToolfoldError
from toolfold.interfaces.cli.inputs import RunOptions, limits_for, read_program

if TYPE_CHECKING:
    from toolfold.models import InstalledSet, Limits

_VALUES: Final = {"--tools": "tools", "--api": "apis", "--file": "files"}
_ONE_VALUE: Final = {"-c": "code", "--ledger": "ledger", "--out": "out"}
_FLAGS: Final = {"--json": "as_json", "-v": "is_verbose", "--verbose": "is_verbose"}
_PATHS: Final = ("files", "out")
_sandboxes: Final[list[SingleUseServer]] = []


def plain_options(arguments: Sequence[str]) -> RunOptions | None:
    """The options of `run`, where there are only the usual ones and each is written out; else `None`."""
    values_by_option: dict[str, list[str]] = {}
    flags: dict[str, bool] = {}
    remaining = list(arguments)
    while remaining:
        word = remaining.pop(0)
        key = _VALUES.get(word) or _ONE_VALUE.get(word)
        if word in _FLAGS:
            flags[_FLAGS[word]] = True
        elif key is not None and remaining:
            values_by_option.setdefault(key, []).append(remaining.pop(0))
        elif key is not None or (word.startswith("-") and word != "-"):
            return None
        else:
            values_by_option.setdefault("program", []).append(word)
    if any(len(values) > 1 for key, values in values_by_option.items() if key not in _VALUES.values()):
        return None
    if ("program" in values_by_option) == ("code" in values_by_option):
        return None
    read = {
        key: [Path(value) for value in values] if key in _PATHS else values for key, values in values_by_option.items()
    }
    # Any: each option has its own type, which mypy cannot follow through the tables above.
    options: dict[str, Any] = {
        key: tuple(values) if key in _VALUES.values() else values[0] for key, values in read.items()
    }
    options.update(flags)
    return RunOptions(**options)


def launch_early(options: RunOptions) -> None:
    """Begin with the sandbox that these most likely need; harmless if it is not needed."""
    if sys.platform != "linux" or options.program == "-":
        return
    # What is wrong is told later, by the command itself.
    with suppress(ToolfoldError, OSError):
        limits = limits_for(None, as_json=options.as_json)
        text = options.code if options.code is not None else read_program(options.program, limits)
        if find_config() is None:
            _sandboxes.append(SingleUseServer.launch(text, limits, isolation="namespace"))


def take_sandbox(text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> SingleUseServer:
    """The sandbox for this program, on its way.

    Raises:
        EngineUnavailable: This is not Linux.
    """
    while _sandboxes:
        sandbox = _sandboxes.pop()
        if sandbox.fits(text, limits, isolation=isolation, sets=sets):
            return sandbox
        sandbox.give_up()
    return SingleUseServer.launch(text, limits, isolation=isolation, sets=sets)
