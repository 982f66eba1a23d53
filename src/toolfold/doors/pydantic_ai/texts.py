"""All that a model reads of this door before it writes a program: descriptions, and the rule when to write one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolfold.models import ToolSpec
from toolfold.program.stubs import prompt_text

RUN_CODE: Final = "run_code"
SEARCH: Final = "search_tools"

_HEAD: Final = """\
Run a Python program that calls tools. Only what it prints and the value of its last expression come back to you; \
replies of tools stay inside.

Write one program for the whole job: several calls, loops, filters, sums. Calls that do not need each other go \
together: `await asyncio.gather(*[...])`. Do not send one program per call. If one call is all you need and its tool \
is offered to you directly, call it directly instead.

The functions below are async and there by name, as are `asyncio` and `json`: `rows = await name(argument=value)`. \
A failing call raises `ToolError`. Each program starts afresh: no names are kept from the one before. It is checked \
before it runs; if it is refused, no tool was called."""

_NO_TOOLS: Final = "No function is here from the start; one that a tool search finds can be called in the next program."

SEARCH_DESCRIPTION: Final = f"""\
Find tools by what they do. The answer has the signature of each tool that was found and says how to call it: \
in a program of `{RUN_CODE}`, directly, or both. Search again with other words if nothing fits."""

IN_CODE: Final = f"call these in a program of `{RUN_CODE}`"
DIRECTLY: Final = "call these directly"


def run_code_description(specs: Sequence[ToolSpec], *, budget_characters: int | None = None) -> str:
    """The description of `run_code`: how to write a program, and the signatures of what it may call."""
    text = prompt_text(specs, budget_characters=budget_characters)
    return f"{_HEAD}\n\n" + (f"```python\n{text}```" if text else _NO_TOOLS)
