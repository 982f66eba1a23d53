"""Saved programs as tools. The reply to a call is the program's text, which runs in the guest of whoever calls it.

So each call that it makes is one of its caller's execution: policy, budgets, approvals, the record and a replay need
nothing of their own. The text finds its arguments as names, and all of them in the dict `arguments`. An argument that
was not given has its default from the schema, else `None`. Its caller gets the program's value, or what it printed if
it has none: nobody reads what a tool prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from toolfold.errors import UsageError
from toolfold.models import Json, Limits, Problem, ToolSpec
from toolfold.program.check import library_set
from toolfold.program.known_names import GUEST_NAMES, ToolIndex
from toolfold.program.parse import program_in
from toolfold.program.reader import ProgramReader
from toolfold.program.rules.analysis import Analysis
from toolfold.tools.tool import ProgramNeeds, TimedSpecOptions, Tool, python_name

SOURCE = "program"
DOMAIN = "programs"


def program_tool(
    name: str, text: str, input_schema: Mapping[str, Json], *, description: str = "",
    output_schema: Mapping[str, Json] | None = None, version: int = 1,
    needs: ProgramNeeds | None = None, **options: Unpack[TimedSpecOptions],
) -> Tool:  # fmt: skip
    """A tool that runs `text`, as the module says.

    `needs` is what `needs_of` says of the text, where that is known already.

    Raises:
        UsageError: The text is no Python.
    """
    needs = needs or needs_of(name, text)
    options.setdefault("domain", DOMAIN)
    spec = ToolSpec(
        name=name, python_name=python_name(name), description=description, input_schema=input_schema,
        output_schema=output_schema, source=SOURCE, **options,
    )  # fmt: skip
    defaults = {
        name: schema.get("default") if isinstance(schema, Mapping) else None
        for name, schema in input_schema.get("properties", {}).items()
        if python_name(name) == name and name not in GUEST_NAMES
    }
    reply = {"program": name, "version": version, "text": text, "presets": list(needs.presets), "defaults": defaults}

    async def call(_: Mapping[str, Any]) -> Mapping[str, Any]:
        return reply

    return Tool(spec=spec, call=call, needs=needs)


def needs_of(name: str, text: str) -> ProgramNeeds:
    """Needs of a text, apart from its tools."""
    read = program_in(text, Limits())
    if isinstance(read, Problem):
        raise UsageError(f"the program of {name!r} is not valid Python: {read}")
    analysis = Analysis(read[1], ProgramReader(read[1]), ToolIndex(()), frozenset())
    return ProgramNeeds(presets=analysis.presets, libraries=library_set(text, analysis, ()))
