"""Prompt text of the tools that a program may call, as interfaces show it to models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from toolfold.models import ToolSpec
from toolfold.prompts.catalog import HEADER, dense_text, dense_within
from toolfold.prompts.python_stubs import prompt_text
from toolfold.tools.learned_replies import ToolLessons

Form: TypeAlias = Literal["dense", "python"]
"""`dense`: one line for each tool. `python`: typed functions with docstrings, about three times as long."""


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
