"""Prompt texts that interfaces share: schemas, tool signatures, and hints beside a program's output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from toolfold.models import Json, Outcome, ToolSpec
from toolfold.prompts.catalog import HEADER, dense_text, dense_within
from toolfold.prompts.python_stubs import prompt_text
from toolfold.tools.learning import ToolLessons

Form: TypeAlias = Literal["dense", "python"]
"""`dense`: one line for each tool. `python`: typed functions with docstrings, about three times as long."""


def text_schema(name: str, description: str) -> dict[str, Json]:
    """Schema of a tool that takes one text; valid in the strict modes of all providers."""
    properties: dict[str, Json] = {name: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [name], "additionalProperties": False}


def tools_text(
    specs: Sequence[ToolSpec], *, budget_characters: int | None = None, form: Form = "dense",
    snapshot: ToolLessons | None = None,
) -> str:  # fmt: skip
    """What there is to call, with the line that explains the form; empty if there is nothing.

    Over budget, what loses least is left out first; at worst some tools are named only, and a search finds them.
    `snapshot` adds what tools were seen to return, and which of them are called most.
    """
    if not specs:
        return ""
    learned = {} if snapshot is None else snapshot.schemas(specs)
    if form == "python":
        specs = [replace(spec, output_schema=learned.get(spec.name, spec.output_schema)) for spec in specs]
        return f"```python\n{prompt_text(specs, budget_characters=budget_characters).rstrip()}\n```"
    if budget_characters is None:
        return f"{HEADER}\n{dense_text(specs, learned=learned)}"
    used = {} if snapshot is None else snapshot.uses
    return f"{HEADER}\n{dense_within(specs, budget_characters, used=used, learned=learned).text}"


# ----------------------------------------------------------------------------------------------------
# What a model reads beside a program's output, so that its next program works: one set of sentences for all interfaces.


def lessons(outcome: Outcome) -> Iterator[str]:
    """Each is a part of its own, after the text that the interface promises."""
    if outcome.stdout_cut_bytes:
        missing = outcome.stdout_cut_bytes - len(outcome.stdout_tail.encode())
        text = f"{missing:,} bytes of output are not shown. A program can read the whole: open({outcome.output_name!r})"
        yield f"{text}. It ends with:\n{outcome.stdout_tail}" if outcome.stdout_tail.strip() else text
    if outcome.shapes:
        shapes = "\n".join(outcome.shapes)
        yield shapes if outcome.status == "failed" else f"Nothing was printed. The last replies:\n{shapes}"
