"""Where a tool failed, for whoever wrote the tool: in the record and in the log, never in what a program reads."""

from __future__ import annotations

import os
import traceback
from typing import Final

from toolfold.tools.masking import masked

MAX_TRACEBACK_CHARACTERS: Final = 4_000
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_THREADS: Final = (os.path.join("concurrent", "futures", "thread.py"), os.path.join("asyncio", "threads.py"))
"""What calls a tool that is not async."""


def traceback_of(error: BaseException) -> str:
    """The traceback without the frames of this package and without secrets; empty if no other frame is in it."""
    told = traceback.TracebackException.from_exception(error)
    if not _keep_others(told):
        return ""
    # Not the folders: the current one stands in a variable, and is no secret from whoever wrote the tool.
    lines = "".join(told.format()).splitlines(keepends=True)
    text = "".join(one if one.startswith("  File ") else masked(one) for one in lines)
    # As in the text of the error, and before it is cut: half a surrogate pair would be written with six characters.
    text = text.encode("utf-8", "backslashreplace").decode()
    # The end has the line that failed.
    return text if len(text) <= MAX_TRACEBACK_CHARACTERS else f"…{text[-MAX_TRACEBACK_CHARACTERS:]}"


def _keep_others(told: traceback.TracebackException) -> bool:
    others = [one for one in told.stack if not (one.filename.startswith(_OURS) or one.filename.endswith(_THREADS))]
    told.stack = traceback.StackSummary.from_list(others)
    # A list, not a generator: each of them has to be changed.
    inner = [one for one in (told.__cause__, told.__context__, *(told.exceptions or ())) if one is not None]
    return any([bool(told.stack), *map(_keep_others, inner)])
