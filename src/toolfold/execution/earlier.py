"""What earlier programs printed, as files for a program that mentions them.

A model that was shown a part of an output is told the name of the whole (`Outcome.output_name`). The ledger has
it, so nothing is kept for those that are never asked for.
"""

from __future__ import annotations

import re
from typing import Final

from toolfold.errors import ToolfoldError
from toolfold.ledger.record import Ledger
from toolfold.models import File

_MENTION: Final = re.compile(r"\boutput-([A-Za-z0-9_-]{8,64})\.txt\b")
_MOST: Final = 4


async def earlier_output(text: str, ledger: Ledger, tenant: str) -> tuple[File, ...]:
    """The outputs that a program's text names, of executions of the same tenant; others are not there."""
    if "output-" not in text:
        return ()
    files = []
    for execution_id in list(dict.fromkeys(_MENTION.findall(text)))[:_MOST]:
        try:
            history = await ledger.load(execution_id)
        except ToolfoldError:
            continue  # it cannot be read: to the program that is a file that is not there
        if history is not None and history.outcome is not None and history.begun.tenant == tenant:
            data = history.outcome.stdout.encode()
            files.append(File(name=f"output-{execution_id}.txt", data=data, mime="text/plain"))
    return tuple(files)
