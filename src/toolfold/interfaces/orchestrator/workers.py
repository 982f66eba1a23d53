"""Workers that serve tools: registered functions, agents and nested programs, with their limits and stub files."""

from __future__ import annotations

import copy
import difflib
import functools
import inspect
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from toolfold.errors import ToolError, ToolNotFound, ToolRefused, UsageError
from toolfold.interfaces.orchestrator.tool_definitions import ToolCatalog, ToolDefinition
from toolfold.models import Call, CallRecord, Limits, ToolSpec, Value
from toolfold.prompts.python_stubs import Stub, write_tree
from toolfold.sources.agent_tools import ask_agent
from toolfold.sources.function_tools import in_thread
from toolfold.tools.catalog import Catalog
from toolfold.tools.router import CallRequest, Handler, Router, Wrapper
from toolfold.tools.router_steps import wrappers
from toolfold.tools.tool import CallContext, Tool, python_name

# Any: a worker returns whatever can be sent, at once or when awaited.
Worker: TypeAlias = Callable[[dict[str, Value]], Any]
"""Takes one payload, async or not."""

_context: Final[ContextVar[CallContext]] = ContextVar("toolfold_orchestrator_call", default=CallContext())  # noqa: B039  # frozen

tool_map: Final[MutableMapping[str, Worker]] = {}
"""Workers by the tool's name, for every executor of this process."""
function_map: Final[MutableMapping[str, Callable[..., Any]]] = {}
"""Functions that take their arguments by name, for tools of type `function`."""


def build_tool(name: str, definition: ToolDefinition, workers: Mapping[str, Worker]) -> Tool:
    """The tool of a definition; who serves it is looked up with each call, so workers may come later.

    A worker for `domain.name` goes before one for the name, which may serve several domains.
    """
    spec = definition.spec(name)
    fallback = _missing_worker(name, workers)
    defaults = {
        parameter.name: parameter.default for parameter in definition.parameters if parameter.default is not None
    }
    if definition.type == "agent" and definition.url:
        fallback = ask_agent(definition.url, headers=definition.headers)
    elif definition.type == "code_exec":
        fallback = _program_runner(spec)
    names = (f"{definition.domain}.{definition.name}", definition.name)

    async def call_within(arguments: Mapping[str, Any], context: CallContext) -> Any:
        count_call(name)
        token = _context.set(context)
        payload = {**copy.deepcopy(defaults), **arguments} if defaults else dict(arguments)
        try:
            return await _call(names, definition.type == "function", payload, workers, fallback)
        finally:
            _context.reset(token)

    # A program's failure is a value of its reply, so trying again would only do its calls twice.
    retry = definition.retry or ("never" if definition.type == "code_exec" else "always")
    call = functools.partial(call_within, context=CallContext())
    return Tool(spec=spec, call=call, call_within=call_within, retry=retry, breaks_on="failure")


def call_context() -> CallContext:
    """For a worker: whose call it serves, with the idempotency key that each attempt and replay of the call has."""
    return _context.get()


def bare_tool(name: str, *, is_function: bool, workers: Mapping[str, Worker] | None = None) -> Tool:
    """A tool that no catalog describes: any arguments, to whatever is registered under the name."""

    async def call(arguments: Mapping[str, Any]) -> Any:
        return await _call((name,), is_function, dict(arguments), workers or {}, _missing_worker(name, workers or {}))

    spec = ToolSpec(name=name, python_name=python_name(name), source="orchestrator")
    return Tool(spec=spec, call=call, retry="always", breaks_on="failure")


async def _call(
    names: Sequence[str], is_function: bool, payload: dict[str, Any], workers: Mapping[str, Worker],
    fallback: Callable[[dict[str, Any]], Awaitable[Any]],
) -> Any:  # fmt: skip
    own = next((workers[name] for name in names if name in workers), None)
    function = next((function_map[name] for name in names if name in function_map), None)
    if is_function and own is None and function is not None:
        return await _run_worker(function, **payload)
    worker = own or next((tool_map[name] for name in names if name in tool_map), None)
    return await (fallback(payload) if worker is None else _run_worker(worker, payload))


async def _run_worker(worker: Callable[..., Any], /, *args: Any, **arguments: Any) -> Any:
    if inspect.iscoroutinefunction(worker) or inspect.iscoroutinefunction(type(worker).__call__):
        return await worker(*args, **arguments)
    return await in_thread(worker, *args, **arguments)


def _missing_worker(name: str, workers: Mapping[str, Worker]) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    async def fail(_: dict[str, Any]) -> Any:
        hint = suggestion(name, {*workers, *tool_map, *function_map})
        hint = hint or f"; register one with tool_map[{name!r}] = worker"
        raise ToolNotFound(f"no worker for {name!r}{hint}")

    return fail


def suggestion(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def register(workers: MutableMapping[str, Worker], name: str, worker: Worker) -> None:
    if not callable(worker):
        raise UsageError(f"the worker for {name!r} is not callable, got {type(worker).__name__}")
    workers[name] = worker


def _program_runner(spec: ToolSpec) -> Callable[[dict[str, Any]], Awaitable[Any]]:
    if len(spec.parameters) != 1:
        names = ", ".join(spec.parameters) or "none"
        raise UsageError(f"tool {spec.name!r} of type 'code_exec' takes one parameter, the program; got {names}")

    async def run(payload: dict[str, Any]) -> Any:
        return await run_within(payload[spec.parameters[0]])

    return run


# ----------------------------------------------------------------------------------------------------
# `MCPClientShim`: registered workers behind retries, a breaker and idempotency keys, without a catalog.


class MCPClientShim:
    """Calls workers by the tool's name.

    Args:
        workers: Of this client alone; by default those in `tool_map`, which all share.
        steps: What a call goes through instead of the usual retries, breaker and memory.
    """

    def __init__(
        self, workers: MutableMapping[str, Worker] | None = None, *, steps: Sequence[Wrapper] | None = None
    ) -> None:
        self.tool_map = tool_map if workers is None else workers
        self._steps = wrappers() if steps is None else tuple(steps)
        self._routers: dict[str, Router] = {}

    def register_worker(self, name: str, worker: Worker) -> None:
        """Let a worker serve a tool."""
        register(self.tool_map, name, worker)

    async def call_tool(
        self, tool_name: str, parameters: Mapping[str, Value] | None = None, *, idempotency_key: str | None = None
    ) -> Value:
        """One call; a failed one is tried again, one with a key that was used is answered from memory.

        Raises:
            ToolError: the tool failed, or was not called; the text says which.
        """
        if tool_name not in self.tool_map:
            raise ToolNotFound(f"no tool {tool_name!r}{suggestion(tool_name, self.tool_map)}")
        router = self._routers.get(tool_name)
        if router is None:
            tool = bare_tool(tool_name, is_function=False, workers=self.tool_map)
            router = self._routers[tool_name] = Router(Catalog([tool]), wrappers=self._steps)
        return await direct(router, tool_name, parameters or {}, CallContext(idempotency_key=idempotency_key))


async def direct(router: Router, name: str, arguments: Mapping[str, Value], context: CallContext) -> Value:
    """The value of one call that no program makes; its error raised."""
    call = Call(id=0, tool=name, arguments=arguments)
    reply = await router.serve(call, caller="direct", context=context)
    if reply.error is not None:
        raise ToolError(reply.error)
    return reply.value


# ----------------------------------------------------------------------------------------------------
# Programs within programs: what one may still use of the time, the calls and the depth of its parents.

MAX_DEPTH: Final = 4
"""Programs within each other, the outermost counted."""


@dataclass(slots=True)
class OutermostProgram:
    """An outermost program and all that it runs."""

    limits: Limits
    began: float = field(default_factory=time.perf_counter)
    calls: int = 0
    """Of every depth; a second attempt counts again."""

    def elapsed_seconds(self) -> float:
        return time.perf_counter() - self.began


@dataclass(frozen=True, slots=True)
class Inside:
    """One program; whoever serves its calls finds it with `current`."""

    outermost: OutermostProgram
    # Any: what a program within a program gives is the interface's own kind of result.
    run: Callable[[str, Inside], Awaitable[Any]]
    depth: int = 1
    records: list[CallRecord] = field(default_factory=list)
    """Its calls and those of the programs it ran; times count from the start of the outermost."""
    start_seconds: dict[int, float] = field(default_factory=dict)
    """When calls of its own that have no record yet began, by their id."""

    def began_of(self, record: CallRecord) -> float:
        """When the call of a new record began, on the clock of the outermost program.

        Not counted back from now: a busy machine may come to a record late, and then the calls of a
        program within this one would seem to begin before the call that ran it.
        """
        began = self.start_seconds.pop(record.id, None)
        return self.outermost.elapsed_seconds() - record.seconds if began is None else began

    def limits(self) -> Limits:
        """The limits left for this program; `ToolRefused` if nothing is, or programs are nested too deep."""
        limits = self.outermost.limits
        if self.depth == 1:
            return limits
        if self.depth > MAX_DEPTH:
            raise ToolRefused(f"this would be program {self.depth} within another; {MAX_DEPTH} is the most")
        seconds = limits.wall_seconds - self.outermost.elapsed_seconds()
        calls = limits.calls - self.outermost.calls
        if seconds <= 0 or calls <= 0:
            raise ToolRefused(f"no {'time' if seconds <= 0 else 'calls'} left for a program within this program")
        return replace(limits, wall_seconds=seconds, calls=calls)


_current: ContextVar[Inside | None] = ContextVar("toolfold_orchestrator_inside", default=None)


def current() -> Inside | None:
    return _current.get()


@contextmanager
def enter_program(inside: Inside) -> Iterator[None]:
    """Serve calls, also in tasks started meanwhile, on behalf of this program."""
    token = _current.set(inside)
    try:
        yield
    finally:
        _current.reset(token)


def record_start(_: Tool, rest: Handler) -> Handler:
    """The router's outermost step: once for each call, whether it is then tried again, refused or not made at all."""

    def note(request: CallRequest) -> Awaitable[Value]:
        inside = current()
        if inside is not None and request.call.id:  # a direct call has no record
            inside.start_seconds[request.call.id] = inside.outermost.elapsed_seconds()
        return rest(request)

    return note


def count_call(name: str) -> None:
    """Count one call of the current program; `ToolRefused` if it and its nested programs have used up theirs."""
    inside = current()
    if inside is None:
        return
    # The outermost program's own calls are counted by its engine, exactly.
    if inside.depth > 1 and inside.outermost.calls >= inside.outermost.limits.calls:
        raise ToolRefused(
            f"{name!r} was not called: {inside.outermost.calls} calls is the limit of a program and its own"
        )
    inside.outermost.calls += 1


async def run_within(code: str) -> Any:
    parent = current()
    if parent is None:
        raise ToolRefused("a program is run by an executor's program or its call_tool only")
    child = Inside(parent.outermost, parent.run, parent.depth + 1)
    try:
        return await parent.run(code, child)
    finally:
        parent.records.extend(child.records)


# ----------------------------------------------------------------------------------------------------
# A catalog as a tree of stub files: importable, and callable outside of a program too.

_IMPORTS: Final = "from toolfold.orchestrator import call_tool"


class StubGenerator:
    """Writes a catalog as importable files, without an executor: `StubGenerator("stubs").generate(catalog)`.

    Args:
        stub_dir: The folder that `tools/<domain>/<tool>.py` goes below; made if it is not there.
    """

    def __init__(self, stub_dir: str | Path = "stubs") -> None:
        self.stub_dir = Path(stub_dir)

    def generate(self, catalog: Iterable[ToolDefinition]) -> list[Path]:
        """Write every tool, and remove what was written for tools that are gone; the files."""
        return write_stubs(_as_catalog(catalog).tools, self.stub_dir)

    def source(self, definition: ToolDefinition) -> str:
        """What `generate` writes for one tool."""
        with tempfile.TemporaryDirectory() as folder:
            files = write_stubs({definition.name: definition}, Path(folder))
            return next(text for file in files if "async def " in (text := file.read_text(encoding="utf-8")))


def _as_catalog(definitions: Iterable[ToolDefinition]) -> ToolCatalog:
    if isinstance(definitions, ToolCatalog):
        return definitions
    catalog = ToolCatalog()
    for definition in definitions:
        catalog.add_tool(definition)
    return catalog


def write_stubs(definitions: Mapping[str, ToolDefinition], folder: Path) -> list[Path]:
    """Write `tools/<domain>/<tool>.py` below `folder`; each body goes to `call_tool`."""
    tools = [build_tool(name, definition, {}) for name, definition in definitions.items()]
    try:
        return write_tree(
            Catalog(tools).specs, folder, body=lambda stub: _body(stub, definitions[stub.spec.name]), imports=_IMPORTS
        )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(f"the stubs cannot be written to {str(folder)!r}: {reason}; name another stub_dir") from error


def _body(stub: Stub, definition: ToolDefinition) -> str:
    entries = [f"{parameter.name!r}: {parameter.python_name}" for parameter in stub.parameters]
    if stub.further is not None:
        entries.append(stub.arguments()[-1].partition(":")[0])
    arguments = f"{{{', '.join(entries)}}}"
    if any(parameter.default == "..." for parameter in stub.parameters):
        arguments = f"{{_name: _value for _name, _value in {arguments}.items() if _value is not NOT_GIVEN}}"
    call = f"await call_tool(server={definition.server!r}, tool_name={definition.name!r}, parameters={arguments})"
    # With a type, because the call gives any value and the stub promises what the tool's schema says.
    return f"_reply: {stub.returns} = {call}\nreturn _reply"
