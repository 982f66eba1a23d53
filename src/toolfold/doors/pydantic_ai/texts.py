"""All that a model reads of this door before it writes a program: descriptions, and the rule when to write one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from toolfold.doors.prompts import Form, tools_text
from toolfold.models import ToolSpec
from toolfold.tools.learning import Snapshot

RUN_CODE: Final = "run_code"
SEARCH: Final = "search_tools"

_HEAD: Final = """\
Run a Python program that calls tools. Only what it prints and the value of its last expression come back to you; \
replies of tools stay inside. Write one program for the whole job: several calls, loops, filters, sums. Run \
independent calls together: `await asyncio.gather(*[...])`. If one call is all you need and its tool is offered to \
you directly, call it directly instead. A failing call raises `ToolError`. Each program starts afresh, with `asyncio` \
and `json` imported. It is checked before it runs; if it is refused, no tool was called."""

_NO_TOOLS: Final = "No function is here from the start; one that a tool search finds can be called in the next program."

SEARCH_DESCRIPTION: Final = f"""\
Find tools by what they do. The answer has the signature of each tool that was found and says how to call it: \
in a program of `{RUN_CODE}`, directly, or both. Search again with other words if nothing fits."""

# Any: a JSON Schema.
RUN_CODE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"code": {"type": "string", "description": "The program, whole."}},
    "required": ["code"],
    "additionalProperties": False,
}

# Any: the same.
SEARCH_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What is needed, in a few words, or a part of a name."}},
    "required": ["query"],
    "additionalProperties": False,
}

IN_CODE: Final = f"call these in a program of `{RUN_CODE}`"
DIRECTLY: Final = "call these directly"


def run_code_description(
    specs: Sequence[ToolSpec], *, budget_characters: int | None = None, form: Form = "dense",
    known: Snapshot | None = None, files: str = "",
) -> str:  # fmt: skip
    """The description of `run_code`: how to write a program, the signatures of what it may call, and its files."""
    tools = tools_text(specs, budget_characters=budget_characters, form=form, known=known)
    return "\n\n".join(part for part in (_HEAD, tools or _NO_TOOLS, files) if part)
