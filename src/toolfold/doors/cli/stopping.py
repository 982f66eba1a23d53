"""What a command says once a signal has stopped its program: which calls may have run, and where the rest is."""

from __future__ import annotations

import shlex
import sys
from typing import Final

from toolfold.doors.cli.history import open_calls
from toolfold.doors.cli.render import shortened, shown_arguments, word
from toolfold.errors import ToolfoldError
from toolfold.ledger.base import Ledger
from toolfold.models import Call

_SHOWN_CALLS: Final = 3
_SHOWN_CHARACTERS: Final = 60


async def tell_stopped(ledger: Ledger, execution_id: str, *, where: str | None = None) -> None:
    """One line on stderr; `where` is the ledger as the command line names it."""
    try:
        history = await ledger.load(execution_id)
    except ToolfoldError:  # a ledger that broke is the lesser news
        history = None
    if history is None:
        print("toolfold: stopped; the program had not begun", file=sys.stderr, flush=True)
        return
    calls = open_calls(history)
    shown = ", ".join(map(_shown, calls[:_SHOWN_CALLS]))
    more = f" and {len(calls) - _SHOWN_CALLS} more" if len(calls) > _SHOWN_CALLS else ""
    said = ["stopped", f"{shown}{more} may have run" if calls else "no call was open"]
    if ledger.is_lasting:
        option = "" if where is None else f" --ledger {shlex.quote(where)}"
        said.append(f"toolfold runs show {execution_id}{option}")
    print(f"toolfold: {'; '.join(said)}", file=sys.stderr, flush=True)


def _shown(call: Call) -> str:
    return f"{word(call.tool)}({shortened(shown_arguments(call.arguments), _SHOWN_CHARACTERS)})"
