"""`toolfold run` without detours: its sandbox is begun first, and the usual options are read without typer.

To read all options of all commands takes as long as to build the sandbox. Whatever is not as usual goes the long way.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolfold.config.find import find_config
from toolfold.engines.single import SingleUseServer
from toolfold.errors import ToolfoldError
from toolfold.interfaces.cli.inputs import RunOptions, limits_for, read_program

if TYPE_CHECKING:
    from toolfold.models import InstalledSet, Limits

_VALUES: Final = {"--tools": "tools", "--api": "apis", "--file": "files"}
_ONE_VALUE: Final = {"-c": "code", "--ledger": "ledger", "--out": "out"}
_FLAGS: Final = {"--json": "as_json", "-v": "is_verbose", "--verbose": "is_verbose"}
_PATHS: Final = ("files", "out")
_begun: Final[list[SingleUseServer]] = []


def plain_options(arguments: Sequence[str]) -> RunOptions | None:
    """The options of `run`, where there are only the usual ones and each is written out; else `None`."""
    said: dict[str, list[str]] = {}
    flags: dict[str, bool] = {}
    left = list(arguments)
    while left:
        word = left.pop(0)
        key = _VALUES.get(word) or _ONE_VALUE.get(word)
        if word in _FLAGS:
            flags[_FLAGS[word]] = True
        elif key is not None and left:
            said.setdefault(key, []).append(left.pop(0))
        elif key is not None or (word.startswith("-") and word != "-"):
            return None
        else:
            said.setdefault("program", []).append(word)
    if any(len(values) > 1 for key, values in said.items() if key not in _VALUES.values()):
        return None
    if ("program" in said) == ("code" in said):
        return None
    read = {key: [Path(one) for one in values] if key in _PATHS else values for key, values in said.items()}
    # Any: each option has its own type, which mypy cannot follow through the tables above.
    options: dict[str, Any] = {
        key: tuple(values) if key in _VALUES.values() else values[0] for key, values in read.items()
    }
    options.update(flags)
    return RunOptions(**options)


def begin(options: RunOptions) -> None:
    """Begin with the sandbox that these most likely need; harmless if it is not needed."""
    if sys.platform != "linux" or options.program == "-":
        return
    # What is wrong is told later, by the command itself.
    with suppress(ToolfoldError, OSError):
        limits = limits_for(None, as_json=options.as_json)
        text = options.code if options.code is not None else read_program(options.program, limits)
        if find_config() is None:
            _begun.append(SingleUseServer.launch(text, limits, isolation="namespace"))


def launched(text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> SingleUseServer:
    """The sandbox for this program, on its way.

    Raises:
        EngineUnavailable: This is not Linux.
    """
    while _begun:
        begun = _begun.pop()
        if begun.fits(text, limits, isolation=isolation, sets=sets):
            return begun
        begun.give_up()
    return SingleUseServer.launch(text, limits, isolation=isolation, sets=sets)
