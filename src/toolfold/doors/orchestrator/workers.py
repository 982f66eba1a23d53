"""What serves a tool: the worker registered for it, an agent's endpoint, or a program of its own."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any, Final, TypeAlias

from toolfold.doors.orchestrator.definitions import ToolDefinition
from toolfold.doors.orchestrator.scope import count_call, run_within
from toolfold.errors import ToolNotFound, UsageError
from toolfold.models import ToolSpec, Value
from toolfold.sources.agents import ask_agent
from toolfold.sources.functions import tool_from_function
from toolfold.tools.names import python_name
from toolfold.tools.tool import CallContext, Tool

# Any: a worker returns whatever can be sent, at once or when awaited.
Worker: TypeAlias = Callable[[dict[str, Value]], Any]
"""Takes one payload, async or not."""

_context: Final[ContextVar[CallContext]] = ContextVar("toolfold_orchestrator_call", default=CallContext())  # noqa: B039  # frozen

tool_map: Final[MutableMapping[str, Worker]] = {}
"""Workers by the tool's name, for every executor of this process."""
function_map: Final[MutableMapping[str, Callable[..., Any]]] = {}
"""Functions that take their arguments by name, for tools of type `function`."""


def served(definition: ToolDefinition, workers: Mapping[str, Worker]) -> Tool:
    """The tool of a definition; who serves it is looked up with each call, so workers may come later."""
    otherwise = _unregistered(definition.name, workers)
    if definition.type == "agent" and definition.url:
        otherwise = ask_agent(definition.url, headers=definition.headers)
    elif definition.type == "code_exec":
        otherwise = _running(definition.spec())

    async def call_within(arguments: Mapping[str, Any], context: CallContext) -> Any:
        count_call(definition.name)
        token = _context.set(context)
        try:
            return await _call(definition.name, definition.type == "function", dict(arguments), workers, otherwise)
        finally:
            _context.reset(token)

    # A program's failure is a value of its reply, so trying again would only do its calls twice.
    retry = definition.retry or ("never" if definition.type == "code_exec" else "always")
    call = functools.partial(call_within, context=CallContext())
    return Tool(spec=definition.spec(), call=call, call_within=call_within, retry=retry)


def call_context() -> CallContext:
    """For a worker: whose call it serves, with the idempotency key that each attempt and replay of the call has."""
    return _context.get()


def bare_tool(name: str, *, is_function: bool, workers: Mapping[str, Worker] | None = None) -> Tool:
    """A tool that no catalog describes: any arguments, to whatever is registered under the name."""

    async def call(arguments: Mapping[str, Any]) -> Any:
        return await _call(name, is_function, dict(arguments), workers or {}, _unregistered(name, workers or {}))

    spec = ToolSpec(name=name, python_name=python_name(name), source="orchestrator")
    return Tool(spec=spec, call=call, retry="always")


async def _call(
    name: str, is_function: bool, payload: dict[str, Any], workers: Mapping[str, Worker],
    otherwise: Callable[[dict[str, Any]], Awaitable[Any]],
) -> Any:  # fmt: skip
    if is_function and name not in workers and (function := function_map.get(name)) is not None:
        return await _finished(lambda _: function(**payload), function, payload)
    worker = workers.get(name) or tool_map.get(name)
    return await (otherwise(payload) if worker is None else _finished(worker, worker, payload))


async def _finished(worker: Worker, written: Callable[..., Any], payload: dict[str, Any]) -> Any:
    """Awaited if it is written async, else run in a thread."""
    if inspect.iscoroutinefunction(written) or inspect.iscoroutinefunction(type(written).__call__):
        return await worker(payload)
    return await _IN_THREAD({"worker": worker, "payload": payload})


def _apply(worker: Any, payload: Any) -> Any:
    return worker(payload)


_IN_THREAD: Final = tool_from_function(_apply).call
"""The threads that function tools run in: enough for a large `gather`."""


def _unregistered(name: str, workers: Mapping[str, Worker]) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def fail(_: dict[str, Any]) -> Any:
        close = difflib.get_close_matches(name, {*workers, *tool_map, *function_map}, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; register one with tool_map[{name!r}] = worker"
        raise ToolNotFound(f"no worker for {name!r}{hint}")

    return fail


def _running(spec: ToolSpec) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    if len(spec.parameters) != 1:
        names = ", ".join(spec.parameters) or "none"
        raise UsageError(f"tool {spec.name!r} of type 'code_exec' takes one parameter, the program; got {names}")

    async def run(payload: dict[str, Any]) -> Any:
        return await run_within(payload[spec.parameters[0]])

    return run
