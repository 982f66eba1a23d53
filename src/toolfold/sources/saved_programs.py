"""Saved programs as tools: a program that calls one runs another, under what is left of its own limits.

The text finds its arguments as names, and all that were given in the dict `arguments`. An argument
that was not given has its default from the schema, else `None`. The reply is the program's value,
or what it printed if it has none.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Protocol, Unpack

from toolfold.errors import ToolError, ToolRefused, UsageError
from toolfold.models import Json, Limits, Outcome, ToolSpec, Value
from toolfold.program.known_names import GUEST_NAMES
from toolfold.tools.arguments import bad_argument
from toolfold.tools.tool import CallContext, TimedSpecOptions, Tool, python_name

MAX_DEPTH: Final = 4
"""Limit of programs within programs: each has its own guest while it waits for the next."""

_depth: ContextVar[int] = ContextVar("toolfold_program_depth", default=0)


class RunProgram(Protocol):
    """Function that runs a program, such as `Runtime.run`."""

    def __call__(self, text: str, *, limits: Limits | None = None) -> Awaitable[Outcome]: ...


def program_tool(
    name: str, text: str, input_schema: Mapping[str, Json], run: RunProgram, *, description: str = "",
    output_schema: Mapping[str, Json] | None = None, **options: Unpack[TimedSpecOptions],
) -> Tool:  # fmt: skip
    """A tool that runs `text` with `run`, as the module says; `UsageError` if the text is no Python."""
    spec = ToolSpec(
        name=name, python_name=python_name(name), description=description, input_schema=input_schema,
        output_schema=output_schema, source="program", **options,
    )  # fmt: skip
    head, body = _split(name, text)

    async def call_within(arguments: Mapping[str, Any], context: CallContext) -> Value:
        depth = _depth.get() + 1
        if depth > MAX_DEPTH:
            raise ToolRefused(f"{name!r} would be program {depth} within another; {MAX_DEPTH} is the most")
        limits = context.limits_left() if context.limits_left is not None else None
        token = _depth.set(depth)
        try:
            outcome = await run(f"{head}{_bind_arguments(spec, arguments)}\n{body}", limits=limits)
        finally:
            _depth.reset(token)
        return _value(outcome)

    return Tool(spec=spec, call=lambda arguments: call_within(arguments, CallContext()), call_within=call_within)


def _split(name: str, text: str) -> tuple[str, str]:
    """Docstring and `__future__` imports, which must stay first in a program, and the rest."""
    try:
        statements = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"the program of {name!r} is not valid Python: {error}") from error
    lines = [f"{line}\n" for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")]
    first = 0
    for statement in statements:
        match statement:
            case ast.Expr(value=ast.Constant(value=str())) | ast.ImportFrom(module="__future__"):
                first = statement.end_lineno or 0
            case _:
                break
    return "".join(lines[:first]), "".join(lines[first:])


def _bind_arguments(spec: ToolSpec, arguments: Mapping[str, Any]) -> str:
    """One line of Python that binds the arguments to their names."""
    parts = [f"arguments = {_literal(spec.name, dict(arguments))}"]
    for name, schema in spec.input_schema.get("properties", {}).items():
        if python_name(name) != name or name in GUEST_NAMES:
            continue  # only `arguments` has it
        if name in arguments:
            parts.append(f"{name} = arguments[{name!r}]")
        else:
            default = schema.get("default") if isinstance(schema, Mapping) else None
            parts.append(f"{name} = {_literal(spec.name, default)}")
    return "; ".join(parts)


def _literal(tool: str, value: Value) -> str:
    match value:
        case list():
            return f"[{', '.join(_literal(tool, item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{key!r}: {_literal(tool, item)}' for key, item in value.items())}}}"
        case float() if not math.isfinite(value):
            return f'float("{value}")'
        case str() | int() | float() | bytes() | None:
            return repr(value)
    raise bad_argument(tool, f"a program cannot be given a {type(value).__name__}")


def _value(outcome: Outcome) -> Value:
    if outcome.status == "finished":
        return outcome.stdout if outcome.value is None and outcome.stdout else outcome.value
    raise ToolError(outcome.problem.message if outcome.problem is not None else f"it ended as {outcome.status}")
