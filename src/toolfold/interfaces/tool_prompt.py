"""Prompt text of the tools that a program may call, as interfaces show it to models, and the language of programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from toolfold.errors import UsageError
from toolfold.models import Json, Language, ToolSpec
from toolfold.prompts.catalog import HEADER, dense_text, dense_within
from toolfold.prompts.python_stubs import prompt_text
from toolfold.tools.learned_replies import ToolLessons
from toolfold.tools.policy import Policy

if TYPE_CHECKING:
    from toolfold.runtime import Runtime

Form: TypeAlias = Literal["dense", "python"]
"""`dense`: one line for each tool. `python`: typed functions with docstrings, about three times as long."""
MOST_SMALL_TOOLS: Final = 8
"""Each is a definition of its own in every request."""


BASH_RULE: Final = """\
With `language: "bash"`, `code` is bash: each tool is a function that takes one JSON object and prints JSON, as in \
`get_user '{"id": 7}' | jq .name`; it returns 1 if the tool fails."""


def bash_rule(runtime: Runtime) -> str:
    """The rule where the config allows bash and the engine runs it; elsewhere models are told nothing of it."""
    return BASH_RULE if runtime.executions.allows_bash() and runtime.executions.shell_profile else ""


# Any: an argument of a request.
def language_of(value: Any, runtime: Runtime) -> Language:
    """The language that a request asks for, unless it is not for programs here."""
    if value is None or value == "python":
        return "python"
    if value != "bash":
        raise UsageError(f"language must be 'python' or 'bash', got {value!r}; nothing was called")
    if not runtime.executions.allows_bash():
        raise UsageError("language 'bash' is turned off here; write Python, or set execution.languages: [python, bash]")
    if not runtime.executions.shell_profile:
        raise UsageError("this engine runs no bash programs here; write Python, or see 'toolfold doctor'")
    return "bash"


def with_language(schema: Mapping[str, Json]) -> dict[str, Json]:
    """The schema of a tool that runs programs, which may be in bash; valid in the strict modes of all providers."""
    properties, required = schema["properties"], schema["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    language: Json = {"type": "string", "enum": ["python", "bash"]}
    return {**schema, "properties": {**properties, "language": language}, "required": [*required, "language"]}


OFFERED_RULE: Final = (
    "Programs can also call your other tools; `name(...)` takes the arguments of your tool of that name."
)


def small_tools(
    specs: Sequence[ToolSpec], snapshot: ToolLessons | None, policy: Policy | None = None
) -> tuple[ToolSpec, ...]:
    """Tools that a model may better call itself if one call is all it needs: they only read, and replied little so far.

    One call costs about half as much then as a program that makes it. Not those that somebody must be asked for, nor
    those whose name is another one in a program, because such a tool is described once for both.
    """
    callable_both_ways = [
        spec for spec in specs
        if spec.allowed_callers == "both" and spec.name == spec.python_name
        and (policy is None or not policy.asks(spec))
    ]  # fmt: skip
    return () if snapshot is None else snapshot.small(callable_both_ways)[:MOST_SMALL_TOOLS]


def without_offered(specs: Sequence[ToolSpec], offered: Collection[str]) -> list[ToolSpec]:
    """The tools with the arguments and words of those left out that the model also reads as tools of its own."""
    schema: dict[str, Json] = {"type": "object"}
    return [
        replace(spec, description="", input_schema=schema, examples=()) if spec.name in offered else spec
        for spec in specs
    ]


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
