"""Pending tool call, made without `await`: awaitable, and its own value wherever it is used as one.

Rules:
1. A call is made once or not at all: when it is awaited, or when something needs its value, whichever comes first.
2. Made for its value, it blocks in place, as `tools.name(...)` does, in the main thread or any other.
3. To ask whether it is awaitable does not make it; to ask for any other type does, for that is its value's type.
4. Calls of one list comprehension are made together when the first value is needed, if their tools only read.
"""

import _thread
import asyncio.coroutines
import collections.abc
import functools
import gc
import inspect
import json
import math
import operator
import sys
import types
import warnings
import weakref
from collections.abc import Callable, Generator
from typing import Any

from toolfold_guest.program.compiler import FILENAME

MOST_OBJECTS = 1_000_000  # a look at so many takes 50 ms
NEW, RUNNING, DONE, FAILED, CLOSED = range(5)

_ASKS_FOR_AWAITABLES = frozenset({"asyncio", "inspect", "types", "functools", "contextlib", "concurrent", "typing"})
"""Modules that ask for the type of what they may have to await."""
_get_objects = gc.get_objects
awaitable_codes: set[Any] = set()
"""The code of tools whose calls can be awaited. A mark on the functions would be copied by `functools.wraps`."""
_reported: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""By id: to look for a call in a set would ask for its value."""
_AWAITABLES: tuple[type, ...] = (collections.abc.Awaitable, collections.abc.Coroutine)


class PendingCall:
    """One call, made or not. `__getattr__` and the special methods below give what its value gives."""

    __slots__ = ("__weakref__", "_toolfold_coroutine", "_toolfold_group", "_toolfold_lock", "_toolfold_maker",
                 "_toolfold_outcome", "_toolfold_state")  # fmt: skip

    def __init__(self, maker: "Maker") -> None:
        self._toolfold_maker = maker
        self._toolfold_state = NEW
        self._toolfold_outcome: Any = None
        self._toolfold_coroutine: Any = None
        self._toolfold_group: list[Any] | None = None
        self._toolfold_lock = _thread.allocate_lock()

    # as an awaitable

    def __await__(self) -> Generator[Any, None, Any]:
        return self._toolfold_awaited().__await__()

    async def _toolfold_awaited(self) -> Any:
        # Awaited twice, or used as a value before: it was made once, and gives what it gave then.
        if self._toolfold_state != NEW:
            return _outcome(self)
        self._toolfold_state = RUNNING
        try:
            self._toolfold_outcome = await self._toolfold_maker.awaited()
        # Kept, so that whoever asks again hears the same.
        except BaseException as error:
            self._toolfold_outcome, self._toolfold_state = error, FAILED
            raise
        self._toolfold_state = DONE
        return self._toolfold_outcome

    def send(self, value: Any) -> Any:
        if self._toolfold_coroutine is None:
            self._toolfold_coroutine = self._toolfold_awaited()
        return self._toolfold_coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        if self._toolfold_coroutine is None:
            self._toolfold_coroutine = self._toolfold_awaited()
        return self._toolfold_coroutine.throw(*error)

    def close(self) -> None:
        if self._toolfold_coroutine is not None:
            self._toolfold_coroutine.close()
        elif self._toolfold_state == NEW:
            self._toolfold_state = CLOSED

    def __del__(self) -> None:
        # The program wrote a call that was never made.
        if self._toolfold_state == NEW:
            self._toolfold_maker.note_unmade()

    # as its value

    def __getattr__(self, name: str) -> Any:
        if name == "__qualname__":
            return self._toolfold_maker.name
        # What asyncio and the interpreter look for in an awaitable must not make the call.
        if name.startswith(("__", "cr_", "gi_", "ag_", "_asyncio", "_toolfold")):
            raise AttributeError(name)
        return getattr(value_of(self), name)

    @property  # type: ignore[misc]  # what `isinstance` asks can only be read
    def __class__(self) -> Any:
        # Rule 3: it depends on who asks. `abc` asks on behalf of `isinstance(call, Awaitable)`.
        frame = sys._getframe(1)
        if frame.f_globals.get("__name__") == "abc":
            is_awaitable = frame.f_locals.get("cls") in _AWAITABLES
        else:
            is_awaitable = _is_of_asyncio(frame)
        return PendingCall if is_awaitable else type(value_of(self))

    def __hash__(self) -> int:
        if _is_of_asyncio(sys._getframe(1)):
            return object.__hash__(self)
        try:
            return hash(value_of(self))
        except TypeError:
            # A set of calls, of which each gives a dict.
            return object.__hash__(self)

    def __eq__(self, other: object) -> Any:
        # asyncio keeps awaitables in sets and dicts, where a call stands for itself.
        return self is other or (not _is_of_asyncio(sys._getframe(1)) and value_of(self) == value_of(other))

    def __ne__(self, other: object) -> Any:
        return value_of(self) != value_of(other)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_toolfold"):
            object.__setattr__(self, name, value)
        else:
            setattr(value_of(self), name, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return operator.itemgetter(0), ([value_of(self)],)

    def __copy__(self) -> Any:
        import copy  # noqa: PLC0415  # of those few programs that copy a reply

        return copy.copy(value_of(self))

    def __deepcopy__(self, memo: Any) -> Any:
        import copy  # noqa: PLC0415  # the same

        return copy.deepcopy(value_of(self), memo)

    def __dir__(self) -> list[str]:
        return dir(value_of(self))

    def __format__(self, spec: str) -> str:
        return format(value_of(self), spec)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return sys.modules["numpy"].asarray(value_of(self), *args, **kwargs)

    def __fspath__(self) -> Any:
        import os  # noqa: PLC0415  # of those few programs whose reply is a path

        return os.fspath(value_of(self))

    def __round__(self, *digits: Any) -> Any:
        return round(value_of(self), *digits)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return value_of(self)(*args, **kwargs)


class Maker:
    """How one call is made, either way."""

    __slots__ = ("_arguments", "_channel", "_last_id", "index", "is_read_only", "line", "name")

    def __init__(
        self, name: str, index: int, arguments: Callable[[], dict[str, Any]], channel: Any, *, line: int,
        is_read_only: bool,
    ) -> None:  # fmt: skip
        self.name, self.index, self.line, self.is_read_only = name, index, line, is_read_only
        self._arguments, self._channel = arguments, channel
        self._last_id = channel.unsent.last_id

    async def awaited(self) -> Any:
        return await self._channel.call(self.index, self.name, self._arguments(), self.line)

    def blocking(self) -> Any:
        if self._channel.unsent.last_id > self._last_id:
            self._channel.habits.late.append((self.name, self.line))
        return self._channel.call_in_place(self.index, self.name, self._arguments(), self.line)

    def blocking_with(self, makers: "list[Maker]") -> list[tuple[bool, Any]]:
        calls = [(maker.index, maker.name, maker._arguments(), maker.line) for maker in makers]
        return self._channel.call_together(calls)  # type: ignore[no-any-return]

    def count(self) -> None:
        self._channel.count_in_place(self.name)

    def note_unmade(self) -> None:
        self._channel.habits.unmade.append((self.name, self.line))


def value_of(value: Any) -> Any:
    """The value of a call that the program did not await; anything else as it is."""
    while type(value) is PendingCall:
        if value._toolfold_state <= RUNNING:
            with value._toolfold_lock:  # another thread may be making it
                if value._toolfold_state == NEW:
                    _make(value)
        value = _outcome(value)
    return value


def _is_of_asyncio(frame: Any) -> bool:
    """Whether a question comes from a module that means the call, not its value."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in _ASKS_FOR_AWAITABLES


def use(value: Any) -> Any:
    """A statement that is only an expression: whatever calls it leaves unmade are meant to be made."""
    if type(value) is PendingCall:
        return value_of(value)
    if type(value) in (list, tuple, set):
        for item in value:
            if type(item) is PendingCall:
                value_of(item)
    return value


def together(values: list[Any]) -> list[Any]:
    calls = [value for value in values if type(value) is PendingCall and value._toolfold_maker.is_read_only]
    if len(calls) > 1:
        # One lock for all of them: whichever is needed first makes all.
        lock = calls[0]._toolfold_lock
        for call in calls:
            call._toolfold_group, call._toolfold_lock = calls, lock
    return values


def all_of(values: list[Any]) -> list[Any]:
    """The values of one list comprehension whose calls nothing awaits."""
    return [value_of(value) for value in together(values)]


async def awaited_value(value: Any) -> Any:
    """What a call gives that the program does not await, where it could; anything else as it is."""
    if type(value) is PendingCall:
        value._toolfold_maker.count()
        return await value
    return await value if type(value) is types.CoroutineType else value


async def await_all(values: list[Any]) -> list[Any]:
    """The same for the calls of one list comprehension."""
    if len(asyncio.all_tasks()) == 1:
        return all_of(values)
    # Other tasks call tools meanwhile: all calls are made in the order in which they would be, had each been awaited.
    return [await awaited_value(value) for value in values]


def deep_value_of(value: Any) -> Any:
    """The same as `value_of`, also inside of a list, tuple or dict."""
    if type(value) in (list, tuple) and any(type(item) is PendingCall for item in value):
        return type(value)([value_of(item) for item in value])
    if type(value) is dict and any(type(item) is PendingCall for item in value.values()):
        return {key: value_of(item) for key, item in value.items()}
    return value_of(value)


def unmade() -> list[tuple[str, int]]:
    """Name and line of calls and coroutines that still exist and that nothing has asked for."""
    # Those that were dropped have reported themselves; these are still referred to somewhere.
    calls = []
    objects = _get_objects()
    for candidate in objects if len(objects) <= MOST_OBJECTS else ():
        if type(candidate) is PendingCall and candidate._toolfold_state == NEW:
            origin: Any = candidate._toolfold_maker.name, candidate._toolfold_maker.line
        elif type(candidate) is types.CoroutineType:
            origin = origin_of(candidate)
        else:
            continue
        # A session's next program finds them again.
        if origin is not None and id(candidate) not in _reported:
            _reported[id(candidate)] = candidate
            calls.append(origin)
    return calls


def origin_of(coroutine: Any) -> tuple[str, int] | None:
    """Name and line of a coroutine that has not begun: of a tool's call, or of a function of the program."""
    code, frame = coroutine.cr_code, coroutine.cr_frame
    if inspect.getcoroutinestate(coroutine) != inspect.CORO_CREATED:
        return None
    if code.co_filename == FILENAME:
        return coroutine.__name__, code.co_firstlineno
    line = frame.f_locals.get("line")
    return None if line is None else (coroutine.__name__, line)


def note_coroutines(habits: Any) -> None:
    """Have coroutines that are dropped before they begin reported, beside the interpreter's own warning."""
    # A name of the interpreter's that nothing documents, and that it looks up each time.
    warn = warnings._warn_unawaited_coroutine  # type: ignore[attr-defined]

    def warn_unawaited(coroutine: Any) -> None:
        origin = origin_of(coroutine)
        if origin is not None:
            habits.unmade.append(origin)
        warn(coroutine)

    warnings._warn_unawaited_coroutine = warn_unawaited  # type: ignore[attr-defined]  # the same


def _make(call: PendingCall) -> None:
    call._toolfold_state = RUNNING
    try:
        if call._toolfold_group is not None:
            _make_group(call)
        else:
            call._toolfold_outcome = call._toolfold_maker.blocking()
            call._toolfold_state = DONE
    except BaseException as error:  # noqa: BLE001  # kept for whoever asks, the first of whom is our caller
        call._toolfold_outcome, call._toolfold_state = error, FAILED


def _make_group(call: PendingCall) -> None:
    # Those that were awaited or made alone before are left out.
    group = [member for member in call._toolfold_group or () if member is call or member._toolfold_state == NEW]
    for member in group:
        member._toolfold_state = RUNNING
    replies = call._toolfold_maker.blocking_with([member._toolfold_maker for member in group])
    for member, (is_ok, outcome) in zip(group, replies, strict=True):
        member._toolfold_outcome, member._toolfold_state = outcome, DONE if is_ok else FAILED


def _outcome(call: PendingCall) -> Any:
    state = call._toolfold_state
    if state == DONE:
        return call._toolfold_outcome
    name = call._toolfold_maker.name
    if state == FAILED:
        raise call._toolfold_outcome
    why = "was closed before it was made" if state == CLOSED else "is being awaited; await its task instead"
    raise RuntimeError(f"the call of {name!r} {why}")


def _forward(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *operands: function(value_of(self), *map(value_of, operands))


def _forward_reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: function(value_of(other), value_of(self))


_UNARY: dict[str, Callable[..., Any]] = {
    "bool": bool, "str": str, "repr": repr, "len": len, "iter": iter, "int": int,
    "float": float, "complex": complex, "index": operator.index, "bytes": bytes, "reversed": reversed,
    "neg": operator.neg, "pos": operator.pos, "abs": abs, "invert": operator.invert, "trunc": math.trunc,
    "floor": math.floor, "ceil": math.ceil, "sizeof": sys.getsizeof,
}  # fmt: skip
_BINARY = ("lt", "le", "gt", "ge", "getitem", "setitem", "delitem", "contains")
_ARITHMETIC = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift", "and", "xor", "or",
)  # fmt: skip


def _add_special_methods() -> None:
    for name, function in _UNARY.items():
        setattr(PendingCall, f"__{name}__", _forward(function))
    for name in _BINARY:
        setattr(PendingCall, f"__{name}__", _forward(getattr(operator, f"__{name}__")))
    for name in _ARITHMETIC:
        function = getattr(operator, f"__{name}__")
        setattr(PendingCall, f"__{name}__", _forward(function))
        setattr(PendingCall, f"__r{name}__", _forward_reflected(function))
    for name, function in (("divmod", divmod),):
        setattr(PendingCall, f"__{name}__", _forward(function))
        setattr(PendingCall, f"__r{name}__", _forward_reflected(function))


_add_special_methods()
for _kind in _AWAITABLES:
    _kind.register(PendingCall)  # type: ignore[attr-defined]  # an ABC, which `type` does not say


def install() -> None:
    """Have the interpreter's own questions about coroutines answered as for any other one."""
    asyncio.coroutines._iscoroutine_typecache.add(PendingCall)  # type: ignore[attr-defined]  # private to asyncio
    is_coroutine = inspect.iscoroutine
    if is_coroutine.__module__ == __name__:
        return

    def iscoroutine(object: Any) -> bool:
        return type(object) is PendingCall or is_coroutine(object)

    inspect.iscoroutine = iscoroutine  # type: ignore[assignment]  # takes more than the original
    _teach_json()


def teach_inspect() -> None:
    """Tools are plain functions that give a coroutine or a call, so that they know their caller's line."""
    is_coroutine_function = inspect.iscoroutinefunction

    def iscoroutinefunction(obj: Any) -> bool:
        function = obj
        while isinstance(function, functools.partial):
            function = function.func
        return getattr(function, "__code__", None) in awaitable_codes or is_coroutine_function(obj)

    functools.update_wrapper(iscoroutinefunction, is_coroutine_function)
    inspect.iscoroutinefunction = iscoroutinefunction  # type: ignore[assignment]  # takes more than the original


def _teach_json() -> None:
    """`json.dumps` of a call is that of its value; its C part knows no object by what it stands for."""
    default, prepare = json.JSONEncoder.default, json.JSONEncoder.__init__

    def default_of_value(self: Any, o: Any) -> Any:
        return value_of(o) if type(o) is PendingCall else default(self, o)

    def init(self: Any, **options: Any) -> None:
        theirs = options.get("default")
        if theirs is not None:
            options["default"] = lambda o: value_of(o) if type(o) is PendingCall else theirs(o)
        prepare(self, **options)

    json.JSONEncoder.default, json.JSONEncoder.__init__ = default_of_value, init  # type: ignore[method-assign]
