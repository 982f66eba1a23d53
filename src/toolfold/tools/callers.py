"""`allowed_callers` as others spell it. Knows words only; the router enforces them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from toolfold.errors import UsageError
from toolfold.models import AllowedCallers

_CODE: Final = re.compile(r"code|programmatic|code_execution(_\d{8})?")


def parse_allowed_callers(value: object, *, default: AllowedCallers = "both") -> AllowedCallers:
    """One of our three words for any of these; `None` is the default.

    `direct`, `code`, `both`; OpenAI's `programmatic`; Anthropic's `code_execution_20250825`;
    and lists of them, such as `["direct", "code_execution_20250825"]`.

    Raises:
        UsageError: it is none of them.
    """
    if value is None:
        return default
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, Sequence) or isinstance(words, bytes) or not words:
        raise UsageError(f"allowed_callers must be a word or a list of words, got {value!r}; {_TAKES}")
    found = {caller for word in words for caller in _callers(word)}
    return "both" if len(found) == 2 else found.pop()


_TAKES: Final = "it takes direct, code, both, programmatic or code_execution_20250825"


def _callers(word: object) -> tuple[AllowedCallers, ...]:
    if word == "both":
        return ("direct", "code")
    if word == "direct":
        return ("direct",)
    if isinstance(word, str) and _CODE.fullmatch(word):
        return ("code",)
    raise UsageError(f"allowed_callers has no {word!r}; {_TAKES}")
