"""What a program kept out of a model's context, against the same calls made directly.

`docs/savings.md` has the method in words. Must not know engines or doors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from toolfold.models import CallRecord, ContextSaved
from toolfold.tools.values import json_size

ENTRY_NAME: Final = "execute_program"
"""What a program is sent to a model's host with, in most doors; its size is counted as such a call."""
BYTES_PER_TOKEN: Final = 4


def context_saved(
    calls: Iterable[CallRecord], *, code_bytes: int, shown_bytes: int, is_finished: bool = True
) -> ContextSaved:
    """Of one execution. Negative where the program was larger than what it replaced.

    The baseline is the best that direct calls can do: all of them in one parallel request, so that each
    call and each reply enters the context once. A program that did not finish has replaced nothing.
    """
    replaced = sum([len(call.name) + call.bytes_in + call.bytes_out for call in calls]) if is_finished else 0
    saved = replaced - (len(ENTRY_NAME) + code_bytes + shown_bytes)
    return ContextSaved(tokens=round(saved / BYTES_PER_TOKEN), bytes=saved)


def code_size(text: str) -> int:
    """Of a program as the argument of a call, in bytes."""
    try:
        return json_size({"code": text})
    except UnicodeEncodeError:  # lone surrogates: the check has refused it, but it was written all the same
        return json_size({"code": text.encode(errors="replace").decode()})
