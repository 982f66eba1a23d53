"""Router of calls: the only way from a caller to a tool, and from its reply back.

The path of a call is a chain of steps, outermost first:

    find → may this caller → policy → check the arguments → [the wrappers] → time out → call → shape

`router_steps.wrappers` has the wrappers and their order. A call of a program may have waited for its turn
before it comes here: `toolfold.execution.calls` limits how many are in flight.
A chain is built once per tool, at its first call; a step that has nothing to do for a tool is left out of it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from toolfold.errors import (
    ReplyUnfit,
    ToolArgumentsInvalid,
    ToolError,
    ToolFailed,
    ToolNotFound,
    ToolRefused,
    ToolTimedOut,
    ToolUnreachable,
)
from toolfold.models import Call, Reply, ReplyMeta, ToolSpec, Value
from toolfold.program.rules.arguments import IDEMPOTENCY_KEY, InputSignature
from toolfold.tools.arguments import argument_check, bad_argument, wrong
from toolfold.tools.catalog import Catalog
from toolfold.tools.error_text import error_for_log, hide_arguments, mask_secrets, traceback_of
from toolfold.tools.sendable_values import is_plain, json_size, parse_json, to_sized_value, to_value
from toolfold.tools.tool import CallContext, Tool

Caller: TypeAlias = Literal["code", "direct"]

MAX_ERROR_CHARACTERS: Final = 2_000
_log: Final = logging.getLogger("toolfold.tools")
_calls: Final = logging.getLogger("toolfold.calls")


class MetaKeywords(TypedDict, total=False):
    """Fields of `ReplyMeta`."""

    attempts: int
    cached: bool
    breaker: str
    from_record: bool
    arguments: Mapping[str, Value] | None


@dataclass(slots=True)
class CallRequest:
    """Call on its way to the tool."""

    call: Call
    caller: Caller
    max_reply_bytes: int | None
    # Any: once checked, these are what the tool takes: dates, models, ...
    arguments: Any
    context: CallContext | None = None
    size_bytes: int | None = None
    """Size of the reply's value as JSON, once there is one."""
    meta: ReplyMeta | None = None
    recorded: Reply | None = None
    """The reply of an earlier execution, in place of a call of the tool."""

    def note(self, **changes: Unpack[MetaKeywords]) -> None:
        """Say in the reply how it came about."""
        self.meta = replace(self.meta or ReplyMeta(), **changes)


Handler: TypeAlias = Callable[[CallRequest], Awaitable[Value]]
"""The rest of the path: returns the reply's value or raises."""
Wrapper: TypeAlias = Callable[[Tool, Handler], Handler]
"""Puts a step before the rest of the path, for one tool; gives the rest itself if it has nothing to add."""


class Router:
    """Serves calls from one catalog; never raises for a tool."""

    def __init__(
        self, catalog: Catalog, *, default_timeout_seconds: float | None = None, max_reply_bytes: int | None = None,
        wrappers: Sequence[Wrapper] = (),
    ) -> None:  # fmt: skip
        self.catalog = catalog
        self._default_timeout_seconds = default_timeout_seconds
        self._max_reply_bytes = max_reply_bytes
        self._steps: tuple[Wrapper, ...] = (_permitted, *with_check(wrappers), self._timed)
        if from_record not in self._steps:
            self._steps = (*self._steps, from_record)
        self._paths: dict[str, Handler] = {}
        self._recorded_paths: dict[str, Handler] = {}

    async def serve(
        self, call: Call, *, caller: Caller = "code", max_reply_bytes: int | None = None,
        context: CallContext | None = None, recorded: Reply | None = None,
    ) -> Reply:  # fmt: skip
        """The reply to one call, whatever the tool does; only a cancel of this very task comes through.

        Where a reply is on `recorded`, the tool is not called, but whoever may refuse the call still may.
        """
        request = CallRequest(call, caller, max_reply_bytes or self._max_reply_bytes, call.arguments, context)
        request.recorded = recorded
        began = 0.0 if caller == "code" else time.perf_counter()
        try:
            paths = self._paths if recorded is None else self._recorded_paths
            value = await (paths.get(call.tool) or self._path(call.tool, paths))(request)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            reply = Reply(call_id=call.id, error=f"{call.tool!r} failed: it was cancelled", meta=request.meta)
        except GeneratorExit:
            raise  # this very coroutine is thrown away
        # Whatever a tool raises, its program must hear of it, and the host's loop must not end.
        except BaseException as error:  # noqa: BLE001
            text = error_text(call.tool, error)
            details = _details(error)
            where = _traceback(call, error)
            reply = Reply(call_id=call.id, value=details, error=text, meta=request.meta, traceback=where)
        else:
            reply = Reply(call_id=call.id, value=value, size_bytes=request.size_bytes, meta=request.meta)
        if caller == "direct":
            _tell(call, reply, time.perf_counter() - began)
        return reply

    def _path(self, name: str, paths: dict[str, Handler]) -> Handler:
        tool = self.catalog.get(name)
        if tool is None:
            near = self.catalog.nearest(name)
            return _failing(ToolNotFound(f"no tool {name!r}" + (f"; did you mean {near!r}?" if near else "")))
        path = _calling(tool)
        is_recorded = paths is self._recorded_paths
        for step in reversed(self._steps):
            path = _replaying(path) if is_recorded and step is from_record else _wrapped(step, tool, path)
        paths[name] = path
        return path

    def _timed(self, tool: Tool, rest: Handler) -> Handler:
        own_seconds = tool.spec.timeout_seconds
        seconds = self._default_timeout_seconds if own_seconds is None else own_seconds
        if seconds is None:
            return rest

        async def time(request: CallRequest) -> Value:
            try:
                async with asyncio.timeout(seconds) as deadline:
                    return await rest(request)
            except TimeoutError as error:
                if deadline.expired():
                    raise ToolTimedOut(f"{tool.spec.name!r} timed out after {seconds:g} s") from error
                raise  # the tool's own

        return time


def _wrapped(step: Wrapper, tool: Tool, rest: Handler) -> Handler:
    name = getattr(step, "__qualname__", type(step).__qualname__)
    try:
        # Any: whatever a step of the host's own returns.
        handler: Any = step(tool, rest)
    except Exception as error:
        raise RuntimeError(f"router step {name!r} failed: {type(error).__name__}: {message_of(error)}") from error
    if inspect.iscoroutine(handler):
        handler.close()
    if not callable(handler):
        kind = type(handler).__name__
        raise TypeError(f"router step {name!r} returned {kind}; return an async function of a request, or the rest")
    wrapped: Handler = handler
    return wrapped


def _tell(call: Call, reply: Reply, seconds: float) -> None:
    """The log's line of a direct call; that of a program's call comes from the observer of its execution."""
    if not _calls.isEnabledFor(logging.DEBUG):
        return
    ending = f"{reply.size_bytes or 0} bytes"
    if reply.error is not None:
        ending = f"failed: {error_for_log(reply.error, call.arguments)}"
    size = json_size(call.arguments)
    _calls.debug("direct call %s(%d bytes) %.1f ms, %s", call.tool, size, seconds * 1000, ending)


def _details(error: BaseException) -> Value:
    if not isinstance(error, ToolError) or error.status is None:
        return None
    try:
        return {"status": error.status, "body": to_value(error.body)}
    except ToolError:  # a tool of the user may have put anything there
        return {"status": error.status, "body": None}


def _traceback(call: Call, error: BaseException) -> str:
    """For the record and the log; a refusal of ours has none."""
    if isinstance(error, SPEAKS_FOR_ITSELF):
        return ""
    text = traceback_of(error)
    if text and _log.isEnabledFor(logging.DEBUG):
        _log.debug("%r failed\n%s", call.tool, hide_arguments(text, call.arguments))
    return text


def error_text(tool: str, error: BaseException) -> str:
    """Text that a program reads after `ToolError: `; never a traceback, never a folder of this host."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    whole = message_of(error)
    text = mask_secrets(whole)
    if text != whole:
        _log.warning("%r failed; a secret was masked in its message: %s", tool, text)
    # Half a surrogate pair has no UTF-8 form and would break the wire.
    text = text.encode("utf-8", "backslashreplace").decode()
    if not isinstance(error, SPEAKS_FOR_ITSELF):
        text = f"{tool!r} failed: {text}"
    if len(text) > MAX_ERROR_CHARACTERS:
        text = f"{text[:MAX_ERROR_CHARACTERS]}… ({len(text) - MAX_ERROR_CHARACTERS} more characters)"
    return text


def checked(tool: Tool, rest: Handler) -> Handler:
    """The step that checks the arguments; in a router's `wrappers` it marks the place of that step."""
    prepare = preparation(tool)
    takes_key = InputSignature(tool.spec).takes_key

    # Not async, like every step that only looks before it leaps: a coroutine less for each call.
    def check(request: CallRequest) -> Awaitable[Value]:
        if takes_key and IDEMPOTENCY_KEY in request.call.arguments:
            _take_key(request)
        request.arguments = prepare(request.call.arguments)
        return rest(request)

    return check


def _take_key(request: CallRequest) -> None:
    """A key among the arguments is for the call, not for the tool."""
    arguments = dict(request.call.arguments)
    key = arguments.pop(IDEMPOTENCY_KEY)
    if not isinstance(key, str) or not key:
        raise bad_argument(request.call.tool, wrong([IDEMPOTENCY_KEY], "must be a text that is not empty", key))
    request.call = msgspec.structs.replace(request.call, arguments=arguments)
    request.context = msgspec.structs.replace(request.context or CallContext(), idempotency_key=key)


def with_check(steps: Sequence[Wrapper]) -> Sequence[Wrapper]:
    """The steps; those that do not say where the arguments are checked come after it."""
    return steps if checked in steps else (checked, *steps)


def from_record(_: Tool, rest: Handler) -> Handler:
    """No step: in a router's `wrappers` it marks where a recorded reply is taken, so that only those before it ask."""
    return rest


def _replaying(rest: Handler) -> Handler:
    async def remember(request: CallRequest) -> Value:
        if request.recorded is None or (request.meta is not None and request.meta.arguments is not None):
            return await rest(request)  # approved with other arguments: that reply is to another call
        request.note(attempts=0, from_record=True)
        request.size_bytes = request.recorded.size_bytes
        return request.recorded.value

    return remember


def preparation(tool: Tool) -> Callable[[Mapping[str, Value]], Mapping[str, Any]]:
    """Arguments as they came, checked and turned into what the tool takes."""
    return tool.prepare or argument_check(tool.spec)


def check_size(tool: str, size: int, max_bytes: int | None) -> None:
    """Raises `ReplyUnfit` for a reply over the limit."""
    if max_bytes is not None and size > max_bytes:
        raise ReplyUnfit(f"{tool!r} returned {_size(size)}; the limit is {_size(max_bytes)}")


_REFUSALS: Final = (ToolNotFound, ToolRefused, ToolArgumentsInvalid, ReplyUnfit)
NO_FAULT_OF_THE_TOOL: Final = (*_REFUSALS, ToolFailed, ToolUnreachable)
"""Errors that a retry would not mend, and that do not say that the tool is broken."""
SPEAKS_FOR_ITSELF: Final = (*_REFUSALS, ToolTimedOut)


def message_of(error: BaseException) -> str:
    """An error's own words, whatever it is."""
    if isinstance(error, KeyError) and len(error.args) == 1:
        return f"no key {error.args[0]!r}"  # the text of a `KeyError` is the bare key
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str | bytes):
        return f"{error.strerror}: {os.path.basename(os.fsdecode(error.filename))!r}"
    try:
        return str(error) or type(error).__name__
    # The tool's own `__str__` may raise anything.
    except Exception:  # noqa: BLE001
        return type(error).__name__


def _failing(error: ToolError) -> Handler:
    async def fail(_: CallRequest) -> Value:
        raise error

    return fail


def _permitted(tool: Tool, rest: Handler) -> Handler:
    allowed = tool.spec.allowed_callers
    if allowed == "both":
        return rest
    rule = "may not be called from a program" if allowed == "direct" else "may be called from a program only"
    text = f"{tool.spec.name!r} {rule}"

    def permit(request: CallRequest) -> Awaitable[Value]:
        if request.caller != allowed:
            raise ToolRefused(text)
        return rest(request)

    return permit


def _calling(tool: Tool) -> Handler:
    call, call_within, spec = tool.call, tool.call_within, tool.spec

    async def run(request: CallRequest) -> Value:
        if call_within is None:
            returned = await call(request.arguments)
        else:
            returned = await call_within(request.arguments, _with_key(request))
        value, request.size_bytes = _shaped(spec, returned, request.max_reply_bytes)
        return value

    return run


def _with_key(request: CallRequest) -> CallContext:
    """The context for the tool: a call of a program that has no key gets one, the same for each attempt and replay."""
    context = request.context or CallContext()
    if context.idempotency_key is not None or not context.execution_id:
        return context
    return msgspec.structs.replace(context, idempotency_key=f"{context.execution_id}:{request.call.id}")


def _shaped(spec: ToolSpec, returned: object, max_bytes: int | None) -> tuple[Value, int]:
    if type(returned) is str and spec.output_schema is None:
        parsed = parse_json(returned)
        returned = parsed if is_plain(parsed) else returned
    try:
        value, size = to_sized_value(returned)
    except ToolError as error:
        raise ReplyUnfit(f"{spec.name!r} returned {error}") from error
    check_size(spec.name, size, max_bytes)
    return value, size


def _size(size: int) -> str:
    """Rounded up, so that a size just over a limit never reads like the limit."""
    for unit, factor in (("MiB", 1024 * 1024), ("KiB", 1024)):
        if size >= factor:
            return f"{math.ceil(size * 10 / factor) / 10:g} {unit}"
    return f"{size} bytes"


# ----------------------------------------------------------------------------------------------------
# Arguments of tools that an execution's caller answers: checked here, since no router serves their calls.

_SAYS_MORE: Final = frozenset(
    {
        "$dynamicRef", "$ref", "additionalProperties", "allOf", "anyOf", "dependentSchemas", "if", "oneOf",
        "patternProperties", "unevaluatedProperties",
    }
)  # fmt: skip
"""With one of these, the names under `properties` need not be all that there are."""


class OutsideChecks:
    """Checks for one execution; a tool's schema is read at its first call."""

    def __init__(self, specs: Iterable[ToolSpec]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._checks: dict[str, Callable[[Mapping[str, Value]], Mapping[str, Value]]] = {}

    def fault(self, call: Call) -> str | None:
        """Error text if the call must not be handed out."""
        check = self._checks.get(call.tool)
        if check is None:
            check = self._checks[call.tool] = outside_check(self._specs[call.tool])
        try:
            check(call.arguments)
        except ToolArgumentsInvalid as error:
            return error_text(call.tool, error)
        return None


def outside_check(spec: ToolSpec) -> Callable[[Mapping[str, Value]], Mapping[str, Value]]:
    """As `argument_check`, for a tool whose call leaves this process as it is.

    Without arguments that the schema does not name: the check before the run refuses them by the same rule.
    """
    schema = spec.input_schema
    if schema.get("properties") and _SAYS_MORE.isdisjoint(schema):
        spec = replace(spec, input_schema={**schema, "additionalProperties": False})
    return argument_check(spec)


# ----------------------------------------------------------------------------------------------------
# The step that tells a program only the type of a tool's error, for operators who trust no text of their tools.


def withholding(tool: Tool, rest: Handler) -> Handler:
    """The step that lets only the type of a tool's error through; the log has all of it but secrets."""
    name = tool.spec.name

    async def withhold(request: CallRequest) -> Value:
        try:
            return await rest(request)
        except SPEAKS_FOR_ITSELF:
            raise
        # Also `SystemExit`, which the router takes for a failure of the tool.
        except (Exception, SystemExit) as error:  # noqa: BLE001
            # Half a surrogate pair has no UTF-8 form, and the line would be lost.
            text = mask_secrets(message_of(error)).encode("utf-8", "backslashreplace").decode()
            _log.warning("%r failed: %s: %s", name, type(error).__name__, text)
            raise Withheld(type(error).__name__) from None

    return withhold


class Withheld(Exception):
    """Error of which a program reads only the type."""
