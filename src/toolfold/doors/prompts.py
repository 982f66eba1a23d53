"""Tools as the text of a prompt, for every door that writes one into a description of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from toolfold.models import ToolSpec
from toolfold.program.dense import HEADER, dense_text
from toolfold.program.dense_fit import dense_within
from toolfold.program.stubs import prompt_text

Form: TypeAlias = Literal["dense", "python"]
"""`dense`: one line for each tool. `python`: typed functions with docstrings, about three times as long."""


def tools_text(specs: Sequence[ToolSpec], *, budget_characters: int | None = None, form: Form = "dense") -> str:
    """What there is to call, with the line that explains the form; empty if there is nothing.

    Over budget, what loses least is left out first; at worst some tools are named only, and a search finds them.
    """
    if not specs:
        return ""
    if form == "python":
        return f"```python\n{prompt_text(specs, budget_characters=budget_characters).rstrip()}\n```"
    text = dense_text(specs) if budget_characters is None else dense_within(specs, budget_characters).text
    return f"{HEADER}\n{text}"
