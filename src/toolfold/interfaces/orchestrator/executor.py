"""Executor of programs over a `ToolCatalog`: `ProgrammaticToolExecutor`, `call_tool` and code checks."""

from __future__ import annotations

import ast
import asyncio
import functools
import itertools
import posixpath
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack, cast

import msgspec

from toolfold import fork_safety
from toolfold.errors import ToolNotFound, UsageError
from toolfold.execution.request import RuntimeSettings, change_settings
from toolfold.interfaces.orchestrator.tool_definitions import ToolCatalog, ToolDefinition
from toolfold.interfaces.orchestrator.workers import (
    Inside,
    OutermostProgram,
    Worker,
    bare_tool,
    build_tool,
    current,
    direct,
    enter_program,
    function_map,
    record_start,
    register,
    suggestion,
    tool_map,
    write_stubs,
)
from toolfold.models import CallRecord, File, Limits, Outcome, Value
from toolfold.prompts.wording import first_line
from toolfold.runtime import Runtime, running_loop
from toolfold.sources.function_tools import as_approve
from toolfold.tools.catalog import Catalog
from toolfold.tools.policy import Policy
from toolfold.tools.router import Router, Wrapper, with_check
from toolfold.tools.router_steps import wrappers
from toolfold.tools.search import SEARCH_SPEC, Index, search_tool
from toolfold.tools.tool import Approve, CallContext, Tool

if TYPE_CHECKING:
    from toolfold.execution.request import HostKeywords, SettingsKeywords


class ToolCallDict(TypedDict):
    """One call, in the result of `execute`."""

    tool: str
    parameters: dict[str, Value]
    duration: float
    error: str | None


class ResultDict(TypedDict):
    """What `execute` gives."""

    output: str
    result: Value
    tool_calls: list[ToolCallDict]
    execution_time: float
    error: str | None


class ProgrammaticToolExecutor:
    """Runs programs that call the tools of a catalog.

    Opens its engine with the first program; `close` it, use it in `async with`, or let the end of
    the event loop close it. A catalog that grows is seen by the next program.

    Args:
        catalog: The tools; workers may be registered before or after.
        enable_stubs: Write the catalog as importable files to `stub_dir`.
        stub_dir: Where to, by default `stubs` in the current folder.
        strict: Refuse programs that `_validate_code_safety` objects to, before they run.
        limits: Of one program, and of all programs that it runs in turn.
        policy: Which tools may be called, by programs and directly.
        steps: The router's wrappers instead of the usual ones: retries, breaker, cache (`toolfold.tools.wrappers`).
        options: As of `Runtime`: `engine`, `ledger`, ... Its `approve` answers for direct calls, too.
    """

    def __init__(
        self, catalog: ToolCatalog, enable_stubs: bool = False, *, stub_dir: str | Path = "stubs",
        strict: bool = False, limits: Limits | None = None, policy: Policy | None = None,
        steps: Sequence[Wrapper] | None = None, **options: Unpack[HostKeywords],
    ) -> None:  # fmt: skip
        self.catalog = catalog
        self._stub_dir = Path(stub_dir) if enable_stubs else None
        self._strict = strict
        self._limits = limits or Limits()
        self._policy = policy or Policy()
        approve = options.get("approve")
        self._approve: Approve | None = approve and as_approve(approve)
        self._steps = steps
        self._settings = change_settings(RuntimeSettings(), cast("SettingsKeywords", options))
        self._workers: dict[str, Worker] = {}
        self._loop_runtimes: dict[asyncio.AbstractEventLoop, LoopRuntime] = {}
        self._own_loop = OwnLoop(self._loop_runtimes)
        self._routes = self._read_catalog()
        self._number = next(_numbers)
        _executors.add(self)

    def register_worker(self, name: str, worker: Worker) -> None:
        """Let a worker serve a tool of this executor; it goes before one in `tool_map`."""
        register(self._workers, name, worker)

    async def execute(
        self, code: str, *, strict: bool | None = None, files: Sequence[File] = (), limits: Limits | None = None
    ) -> ResultDict:
        """Run a program to its end. Its mistakes are in the result's `error`; only the host's own raise."""
        is_strict = self._strict if strict is None else strict
        return await self._run(code, self._inside(is_strict, limits), is_strict=is_strict, files=files)

    def execute_sync(
        self, code: str, *, strict: bool | None = None, files: Sequence[File] = (), limits: Limits | None = None
    ) -> ResultDict:
        """The same from code that is not async."""
        if running_loop() is not None:
            raise UsageError("an event loop is running here; use 'await executor.execute(...)'")
        return self._own_loop.run(self.execute(code, strict=strict, files=files, limits=limits))

    async def call_tool(
        self, tool_name: str, parameters: Mapping[str, Value] | None = None, *, idempotency_key: str | None = None
    ) -> Value:
        """One call through the same router as a program's; the same key twice runs the tool once.

        Raises:
            ToolError: the tool failed, or was not called; the text says which.
        """
        self._refresh()
        parent = current()
        inside = self._inside(self._strict, None)
        if parent is not None:  # a worker calls on: what its program has used counts here too
            inside = replace(inside, outermost=parent.outermost, depth=parent.depth, records=parent.records)
        with enter_program(inside):
            context = CallContext(idempotency_key=idempotency_key, approve=self._approve)
            return await direct(self._routes.router, tool_name, parameters or {}, context)

    async def close(self) -> None:
        """End every guest of this event loop; the next program opens a new engine."""
        loop_runtime = self._loop_runtimes.pop(asyncio.get_running_loop(), None)
        if loop_runtime is not None:
            await loop_runtime.close()

    async def __aenter__(self) -> ProgrammaticToolExecutor:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _validate_code_safety(self, tree: ast.AST) -> None:
        """The code checks, as advice: the engine is what holds a program."""
        validate_code_safety(tree)

    def _inside(self, is_strict: bool, limits: Limits | None) -> Inside:
        # Weak: a context outlives its program in tasks and timers, and must not keep the executor.
        executor = weakref.ref(self)

        async def run(code: str, inside: Inside) -> ResultDict:
            owner = executor()
            assert owner is not None, "it runs the program that calls"
            return await owner._run(code, inside, is_strict=is_strict)

        return Inside(OutermostProgram(limits or self._limits), run)

    async def _run(self, code: str, inside: Inside, *, is_strict: bool, files: Sequence[File] = ()) -> ResultDict:
        refusal = _refusal(code) if is_strict else None
        if refusal is not None:
            return ResultDict(output="", result=None, tool_calls=[], execution_time=0.0, error=refusal)
        limits = inside.limits()
        runtime = await self._open_runtime()

        def keep(record: CallRecord) -> None:
            # On the outermost program's clock, so that calls of programs within programs stand in their order.
            began = inside.began_of(record)
            inside.records.append(msgspec.structs.replace(record, started_seconds=began))

        with enter_program(inside):
            outcome = await runtime.run(code, files=files, limits=limits, on_call=keep)
        return _render(outcome, inside.records)

    async def _open_runtime(self) -> Runtime:
        """This event loop's runtime, with the tools that the catalog has now."""
        for closed in [loop for loop in self._loop_runtimes if loop.is_closed()]:
            del self._loop_runtimes[closed]
        loop = asyncio.get_running_loop()
        if loop not in self._loop_runtimes:
            self._loop_runtimes[loop] = LoopRuntime(
                Runtime(limits=self._limits, policy=self._policy, settings=self._settings)
            )
        runtime = await self._loop_runtimes[loop].open()
        self._refresh()
        if runtime.catalog.router is not self._routes.router:
            # With one router, direct calls share breakers and idempotency keys with programs.
            runtime.replace_tools(self._routes.tools, router=self._routes.router)
        return runtime

    def _refresh(self) -> None:
        if self._routes.definitions is not self.catalog.tools:
            self._routes = self._read_catalog()

    def _read_catalog(self) -> _Routes:
        definitions = self.catalog.tools
        tools = tuple(build_tool(name, definition, self._workers) for name, definition in definitions.items())
        if self._stub_dir is not None:
            write_stubs(definitions, self._stub_dir)
        if tools and SEARCH_SPEC.name not in definitions:
            specs = [tool.spec for tool in tools]
            index = functools.cache(lambda: Index(specs))
            tools = (*tools, search_tool(lambda _tenant: index()))
        steps = wrappers(policy=self._policy) if self._steps is None else self._steps
        return _Routes(definitions, tools, Router(Catalog(tools), wrappers=(record_start, *with_check(steps))))


async def call_tool(
    server: str, tool_name: str, parameters: Mapping[str, Value] | None = None, idempotency_key: str | None = None
) -> Value:
    """One call of a tool: of an executor's catalog if one has it there, else of what is registered.

    Args:
        server: The tool's domain; `default` and `function` are functions first, then any tool.
        tool_name: As its definition spells it.
        parameters: Its arguments.
        idempotency_key: The same key twice runs the tool once.

    Raises:
        ToolError: the tool failed, or was not called; the text says which.
    """
    is_function = server in _FUNCTION_SERVERS
    executor, name = _executor_for(server, tool_name)
    if executor is not None:
        return await executor.call_tool(name, parameters, idempotency_key=idempotency_key)
    if tool_name not in tool_map and not (is_function and tool_name in function_map):
        raise ToolNotFound(f"no tool {tool_name!r} at {server!r}{suggestion(tool_name, {*tool_map, *function_map})}")
    router = _bare_routers.get((is_function, tool_name))
    if router is None:
        router = Router(Catalog([bare_tool(tool_name, is_function=is_function)]), wrappers=wrappers())
        _bare_routers[is_function, tool_name] = router
    return await direct(router, tool_name, parameters or {}, CallContext(idempotency_key=idempotency_key))


@dataclass(frozen=True, slots=True, eq=False)
class _Routes:
    definitions: Mapping[str, ToolDefinition]
    tools: tuple[Tool, ...]
    router: Router


_FUNCTION_SERVERS: Final = ("default", "function")
_executors: Final[weakref.WeakSet[ProgrammaticToolExecutor]] = weakref.WeakSet()
_bare_routers: Final[dict[tuple[bool, str], Router]] = {}
_numbers: Final = itertools.count()


def _executor_for(server: str, tool_name: str) -> tuple[ProgrammaticToolExecutor | None, str]:
    """The latest executor that has the tool there, and its name in that catalog."""
    is_at = functools.partial(_is_at, server)
    named = [(executor, executor.catalog.name_at(tool_name, is_at)) for executor in tuple(_executors)]
    candidates = [(executor, name) for executor, name in named if name is not None]
    return max(candidates, key=lambda candidate: candidate[0]._number, default=(None, tool_name))


def _is_at(server: str, definition: ToolDefinition) -> bool:
    return server in (definition.server, definition.spec().domain or None, definition.type == "function" and "function")


def _refusal(code: str) -> str | None:
    try:
        validate_code_safety(ast.parse(code))
    except UsageError as error:
        return str(error)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # the runtime's own check says it better
    return None


def _render(outcome: Outcome, records: Sequence[CallRecord]) -> ResultDict:
    calls = [
        ToolCallDict(tool=record.name, parameters=dict(record.arguments), duration=record.seconds, error=record.error)
        for record in sorted(records, key=lambda record: record.started_seconds)
    ]
    first = f"{first_line(outcome)}\n".lstrip()
    return ResultDict(
        output=first + outcome.stdout + ("\n... (truncated)" if outcome.stdout_cut_bytes else ""), result=outcome.value,
        tool_calls=calls, execution_time=outcome.seconds, error=_error(outcome),
    )  # fmt: skip


def _error(outcome: Outcome) -> str | None:
    if outcome.problem is not None:
        return str(outcome.problem)
    return None if outcome.status == "finished" else f"the program ended as {outcome.status!r}"


# ----------------------------------------------------------------------------------------------------
# Code checks, as advice: they refuse what looks dangerous, and stop nobody who means harm.
#
# The engine is the boundary: a program that passes can do no more than one that was never looked at.

_NAMES: Final = frozenset({"__import__", "__builtins__", "eval", "exec", "compile"})
_MODULES: Final = frozenset({
    "builtins", "ctypes", "importlib", "multiprocessing", "os", "posix", "pty", "shutil", "signal", "socket",
    "subprocess", "sys",
})  # fmt: skip
_OPENERS: Final = frozenset({"open", "Path", "PurePath", "PosixPath"})
_PATHS_MODULES: Final = frozenset({"codecs", "io", "pathlib"})
_FOLDERS: Final = ("/tmp/", "/mnt/data/")
"""The jail's own; a relative path is in the data folder."""


def validate_code_safety(tree: ast.AST) -> None:
    """Refuse `__import__`, `eval`, `exec`, `os` and its like, and files outside of the temporary folders."""
    for node in ast.walk(tree):
        problem = _problem(node)
        if problem:
            raise UsageError(f"line {getattr(node, 'lineno', 1)}: {problem}")


def _problem(node: ast.AST) -> str | None:
    match node:
        case ast.Name(id=name) if name in _NAMES:
            return f"{name!r} is not allowed in strict mode"
        case ast.Import(names=names):
            return _module_problem(alias.name for alias in names)
        case ast.ImportFrom(module=str(module)):
            return _module_problem([module])
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in _MODULES:
            return f"'{name}.{attribute}' is not allowed in strict mode; use a tool instead"
        case ast.Call(func=function, args=args, keywords=keywords) if _opens(function):
            return _path_problem(args, keywords)
    return None


def _module_problem(names: Iterable[str]) -> str | None:
    for name in names:
        if name.partition(".")[0] in _MODULES:
            return f"module {name!r} is not allowed in strict mode; use a tool instead"
    return None


def _opens(function: ast.expr) -> bool:
    match function:
        case ast.Name(id=name):
            return name in _OPENERS
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return module in _PATHS_MODULES and name in _OPENERS
    return False


def _path_problem(args: list[ast.expr], keywords: list[ast.keyword]) -> str | None:
    path_keywords = [keyword.value for keyword in keywords if keyword.arg in ("file", "filename")]
    path = (args or path_keywords or [ast.Constant("")])[0]
    match path:
        # Of an f-string, what it begins with.
        case ast.Constant(value=str(text)) | ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]):
            folder = posixpath.normpath(text)
            is_inside = f"{folder}/".startswith(_FOLDERS) if folder.startswith("/") else not folder.startswith("..")
            return None if is_inside else f"file {text!r} is outside of the temporary folders"
    return "a file whose path is not written out cannot be checked; write the path as text"


# ----------------------------------------------------------------------------------------------------
# A runtime that opens when it is first needed and closes with the event loop it was opened in.
#
# An open async generator is what an event loop ends by itself, also at the end of `asyncio.run`: so
# an executor that nobody closes leaves no guest behind.


class LoopRuntime:
    """One runtime in one event loop."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = asyncio.Lock()
        self._generator: AsyncGenerator[None, None] | None = None

    async def open(self) -> Runtime:
        async with self._lock:
            if self._generator is None:
                generator = _keep_open(self._runtime)
                await anext(generator)
                self._generator = generator
        return self._runtime

    async def close(self) -> None:
        async with self._lock:
            generator, self._generator = self._generator, None
            if generator is not None:
                await generator.aclose()


async def _keep_open(runtime: Runtime) -> AsyncGenerator[None, None]:
    async with runtime:
        yield


# ----------------------------------------------------------------------------------------------------
# An event loop of one's own, for callers that are not async; it ends with its owner or the interpreter.

_T = TypeVar("_T")


class OwnLoop:
    """Runs one coroutine at a time, and keeps its loop and `holds`, all that is open in it, for the next."""

    def __init__(self, holds: object) -> None:
        self._holds = holds
        self._runner: asyncio.Runner | None = None
        self._lock = threading.Lock()
        self._finalizer: weakref.finalize[Any, OwnLoop] | None = None
        self._of_parent: asyncio.Runner | None = None
        fork_safety.watch(self)

    def disown(self) -> None:
        """In a forked child: the loop waits for the parent's descriptors; the next coroutine here gets another."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self._lock = threading.Lock()
        self._of_parent, self._runner = self._runner, None

    def run(self, work: Coroutine[object, None, _T]) -> _T:
        with self._lock:
            if self._runner is None:
                self._runner = asyncio.Runner()
                self._finalizer = weakref.finalize(self, _end, self._runner, self._holds)
            return self._runner.run(work)


def _end(runner: asyncio.Runner, holds: object) -> None:
    if running_loop() is not None:
        # The garbage collector may come by anywhere, and one loop cannot run within another.
        threading.Thread(target=_end, args=(runner, holds)).start()
        return
    loop = runner.get_loop()
    # When the interpreter ends no more threads can be started, and `Runner.close` wants one.
    loop.set_default_executor(_Inline())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


class _Inline(ThreadPoolExecutor):
    """Does at once what a thread should do: asyncio takes no executor that is not of this class."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        # It belongs to whoever waits for the future.
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)
        return future
