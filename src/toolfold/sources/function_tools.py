"""Python functions as tools: schema from the signature, words from the docstring.

The decorator only marks the function; the tool is made when a catalog asks for it (`as_tool`).
So a decorated function stays the function it was, methods still bind, and an annotation may
name a class that is defined further down.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import importlib
import importlib.util
import inspect
import itertools
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final, TypeVar, Unpack, cast, overload

from toolfold.errors import UsageError
from toolfold.models import AllowedCallers, Json, ToolSpec
from toolfold.sources.function_signature import Docstring, Function, local_names, origin_of, resolve_signature
from toolfold.tools.arguments import show_value
from toolfold.tools.tool import (
    Approve,
    ApproveCallback,
    CallContext,
    FunctionOptions,
    RetryWhen,
    TimedSpecOptions,
    Tool,
    python_name,
)

_F = TypeVar("_F", bound=Function)

# As many as calls may be in flight: the default pool has four more than there are cores, and a
# `gather` of 100 slow functions would queue there. Threads start when they are needed.
_threads: Final = ThreadPoolExecutor(max_workers=100, thread_name_prefix="toolfold-tool")

_MARK: Final = "__toolfold_tool__"


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, domain: str = "", read_only: bool = False,
    idempotent: bool = False, destructive: bool = False, allowed_callers: AllowedCallers = "both",
    timeout_seconds: float | None = None, cache_seconds: float = 0.0, retry: RetryWhen = "safe",
    examples: Sequence[Mapping[str, Json]] = (),
) -> Callable[[_F], _F]: ...  # fmt: skip
# Any: the overloads above say what comes of what.
def tool(
    function: Function | None = None, /, *, name: str | None = None, description: str | None = None,
    domain: str = "", read_only: bool = False, idempotent: bool = False, destructive: bool = False,
    allowed_callers: AllowedCallers = "both", timeout_seconds: float | None = None, cache_seconds: float = 0.0,
    retry: RetryWhen = "safe", examples: Sequence[Mapping[str, Json]] = (),
) -> Any:  # fmt: skip
    """Mark a function as a tool, bare (`@tool`) or with options. It stays the function that it was.

    Args:
        function: Its signature becomes the schema, its docstring the description.
        name: Instead of the function's own.
        description: Instead of that in the docstring.
        domain: The module that programs may import it from: `from tools.<domain> import <name>`.
        read_only: It changes nothing, so that a call may be repeated.
        idempotent: To call it twice does no more than to call it once.
        destructive: A policy may ask before each call of it.
        allowed_callers: `code` for programs, `direct` for direct calls, or `both`.
        timeout_seconds: How long one call may take; `None` takes the limit of the program.
        cache_seconds: How long a reply may be given again to the same arguments; 0 is not at all.
        retry: After a failure: `safe` tries again where that cannot do a thing twice, or `always`, or `never`.
        examples: Arguments of calls, for the model.
    """
    options = FunctionOptions(
        name=name, description=description, domain=domain, read_only=read_only, idempotent=idempotent,
        destructive=destructive, allowed_callers=allowed_callers, timeout_seconds=timeout_seconds,
        cache_seconds=cache_seconds, retry=retry, examples=examples,
    )  # fmt: skip
    if function is None:
        return lambda marked: _mark(marked, options)
    return _mark(function, options)


def as_tool(obj: Tool | Function) -> Tool:
    """The tool of a `Tool`, a function with or without `@tool`, or another callable.

    Raises:
        UsageError: it cannot be a tool; the text says why.
    """
    if isinstance(obj, Tool):
        return obj
    if not callable(obj):
        raise UsageError(f"{show_value(obj)} cannot be a tool: it is neither a Tool nor callable")
    mark = getattr(obj, _MARK, None) or _Mark()
    return _tool_from(obj, mark.namespace, **mark.options)


def tool_from_function(fn: Function, **options: Unpack[FunctionOptions]) -> Tool:
    """A tool that calls `fn`: awaited if it is async, else run in a thread with the caller's context.

    A parameter of type `CallContext` is filled in here and unknown to programs: whose call it is, and its
    idempotency key.

    A thread cannot be stopped: after a timeout, a function that is not async runs on unheard.

    Raises:
        UsageError: it takes `*args`, yields, or has a parameter that no schema can describe.
    """
    return _tool_from(fn, {}, **options)


@dataclass(frozen=True, slots=True)
class _Mark:
    options: Mapping[str, Any] = field(default_factory=dict)
    namespace: Mapping[str, Any] = field(default_factory=dict)
    """Local names where it was defined, for annotations that are still text."""


def _mark(function: _F, options: Mapping[str, Any]) -> _F:
    if not callable(function):
        raise UsageError(f"{show_value(function)} cannot be marked with @tool: it is not callable")
    # Only the names in its annotations: a mark must not keep all that was local alive.
    identifiers: set[str] = set()
    # From Python 3.14 on, reading them fails while a class they name is not there yet.
    with contextlib.suppress(NameError):
        identifiers.update(re.findall(r"\w+", str(getattr(origin_of(function), "__annotations__", ""))))
    names = {name: value for name, value in local_names(function).items() if name in identifiers}
    try:
        setattr(function, _MARK, _Mark(options, names))
    except AttributeError:
        raise UsageError(f"{show_value(function)} cannot be marked with @tool; use tool_from_function") from None
    return function


def _tool_from(
    fn: Function, namespace: Mapping[str, Any], *, name: str | None = None, description: str | None = None,
    retry: RetryWhen = "safe", examples: Sequence[Mapping[str, Json]] = (), **hints: Unpack[TimedSpecOptions],
) -> Tool:  # fmt: skip
    # Imported here: it brings pydantic, which a runtime without functions does without.
    from toolfold.sources.function_schema import input_of, output_schema  # noqa: PLC0415

    name = name or _name_of(fn)
    signature = resolve_signature(fn, name, {**namespace, **local_names(fn)})
    docstring = Docstring.of(fn)
    parameters = signature.parameters.values()
    context_names = [parameter.name for parameter in parameters if parameter.annotation is CallContext]
    visible_parameters = [parameter for parameter in parameters if parameter.name not in context_names]
    prepare, input_schema = input_of(name, signature.replace(parameters=visible_parameters), docstring)
    spec = ToolSpec(
        name=name, python_name=python_name(name),
        description=docstring.description if description is None else description, input_schema=input_schema,
        output_schema=output_schema(signature.return_annotation, docstring), examples=tuple(examples), is_lenient=True,
        **hints,
    )  # fmt: skip
    call = _call(fn, signature)
    if not context_names:
        return Tool(spec=spec, call=call, prepare=prepare, retry=retry, origin=import_path_of(fn))

    def call_within(arguments: Mapping[str, Any], context: CallContext) -> Awaitable[Any]:
        return call({**arguments, **dict.fromkeys(context_names, context)})

    call_alone = functools.partial(call_within, context=CallContext())
    return Tool(spec=spec, call=call_alone, call_within=call_within, prepare=prepare, retry=retry)


def _name_of(fn: Function) -> str:
    if isinstance(fn, functools.partial):
        return _name_of(fn.func)
    name: str = getattr(fn, "__name__", None) or type(fn).__name__
    if name == "<lambda>":
        raise UsageError("a lambda cannot be a tool without a name; use tool_from_function(..., name='...')")
    return name


# --- the call --------------------------------------------------------------------------------


def _call(fn: Function, signature: inspect.Signature) -> Callable[[Mapping[str, Any]], Awaitable[Any]]:
    positional_only = [
        parameter for parameter in signature.parameters.values() if parameter.kind is parameter.POSITIONAL_ONLY
    ]
    if positional_only:
        fn = _accept_keywords(fn, positional_only)
    if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
        return lambda arguments: fn(**arguments)  # its coroutine, with none of ours around it
    return lambda arguments: in_thread(fn, **arguments)


async def in_thread(fn: Function, /, *args: Any, **arguments: Any) -> Any:
    """Call a function in one of the tools' threads, with the caller's context."""
    run = functools.partial(contextvars.copy_context().run, _run, fn, *args, **arguments)
    result = await asyncio.get_running_loop().run_in_executor(_threads, run)
    return await result if inspect.isawaitable(result) else result


def as_approve(approve: ApproveCallback) -> Approve:
    """The callback for approvals as a coroutine function; in a thread it may wait for a person."""
    if inspect.iscoroutinefunction(approve) or inspect.iscoroutinefunction(type(approve).__call__):
        return cast("Approve", approve)
    return functools.partial(in_thread, approve)


def _run(fn: Function, /, *args: Any, **arguments: Any) -> Any:
    try:
        return fn(*args, **arguments)
    except StopIteration as error:
        # A future cannot hold it: the call would never end.
        raise RuntimeError("StopIteration") from error


def _accept_keywords(fn: Function, positional_only: Sequence[inspect.Parameter]) -> Function:
    """`fn` with its positional-only parameters passed by name."""

    def call(**arguments: Any) -> Any:
        values = [arguments.pop(parameter.name, parameter.default) for parameter in positional_only]
        return fn(*values, **arguments)

    if inspect.iscoroutinefunction(fn):

        async def call_async(**arguments: Any) -> Any:
            return await call(**arguments)

        return call_async
    return call


# ----------------------------------------------------------------------------------------------------
# Python files as modules, and functions by import path: `package.module:name`, `/folder/file.py:name`.

_PREFIX: Final = "toolfold_user_tools_"
_numbers: Final = itertools.count(1)


def import_file(path: str) -> ModuleType:
    """The file as a module, its siblings importable as in `python FILE`; `UsageError` for another kind of file."""
    # Its own name per file: two files called tools.py are two modules.
    name = f"{_PREFIX}{next(_numbers)}"
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise UsageError(f"tools file {path!r} is not Python; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # Annotations are resolved through `sys.modules`.
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def import_path_of(function: Function) -> str:
    """Import path of this very function for another process; empty if there is none."""
    name: str = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    # The script itself has a name here only.
    if module is None or module.__name__ == "__main__" or _attribute_of(module, name) is not function:
        return ""
    location = str(module.__file__) if module.__name__.startswith(_PREFIX) else module.__name__
    return f"{location}:{name}"


class FunctionImporter:
    """Importer of functions by import path; a file is imported once."""

    def __init__(self) -> None:
        self._files: dict[str, ModuleType] = {}

    # Any: whatever is there.
    def find(self, import_path: str) -> Any:
        """The function at a path of `import_path_of`; `UsageError` says why it is not here."""
        location, _, name = import_path.rpartition(":")
        try:
            function = _attribute_of(self._module(location), name)
        # Whatever the module raises while it is imported.
        except (Exception, SystemExit) as error:
            raise UsageError(f"{location!r} cannot be imported: {type(error).__name__}: {error}") from error
        if function is None:
            raise UsageError(f"{location!r} has no {name!r}")
        return function

    def _module(self, location: str) -> ModuleType:
        if not location.endswith(".py"):
            return importlib.import_module(location)
        if location not in self._files:
            self._files[location] = import_file(location)
        return self._files[location]


# Any: whatever is there.
def _attribute_of(module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value
