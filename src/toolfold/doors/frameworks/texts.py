"""All that a model reads of the one tool that runs programs, in any framework. Pure text."""

from __future__ import annotations

from typing import Final

from toolfold.models import Json

ENTRY_NAME: Final = "execute_program"

_DESCRIPTION: Final = """\
Run a Python program that calls tools. Use it when a task takes several tool calls, a loop, or filtering and combining \
what tools return: only what the program prints, and the value of its last line, come back to you. Run independent \
calls at once with `await asyncio.gather(...)`. Tools return Python values; a failing tool raises `ToolError`. There \
is no network and no host file system."""
_FRESH: Final = "Each program starts fresh: no names or files are kept."
_KEPT: Final = "Names and files are kept from one program to the next."
_ONLY_HERE: Final = "The tools below can be called only in a program."
_DIRECT: Final = "For a single call of a tool that you also have directly, call it directly."
_CODE: Final = "The Python program. Print what you need to know; keep large results inside the program."

# For the strict modes of all providers.
SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": _CODE}},
    "required": ["code"],
    "additionalProperties": False,
}


def rules(*, keeps_names: bool, has_both: bool) -> str:
    """What programs are for and how they behave.

    Args:
        keeps_names: Programs share one session.
        has_both: Some tools can be called directly as well.
    """
    return " ".join([_DESCRIPTION, _KEPT if keeps_names else _FRESH, _DIRECT if has_both else _ONLY_HERE])
