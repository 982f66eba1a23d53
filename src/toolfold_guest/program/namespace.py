"""Namespace of a program: tools as functions, the module `tools`, names that need no import, pages."""

import ast
import asyncio
import base64
import builtins
import difflib
import functools
import importlib
import inspect
import io
import json
import linecache
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from toolfold_guest.calls import pending_call
from toolfold_guest.calls.channel import CallSite, Channel, ToolError, line_of
from toolfold_guest.calls.pending_call import Maker, PendingCall, value_of
from toolfold_guest.program import compiler
from toolfold_guest.program.compiler import (
    BLOCKING_PREFIX,
    CALL_NAME,
    FILENAME,
    PENDING_PREFIX,
    RETURN_NAME,
    compile_in_parts,
    compile_program,
)
from toolfold_guest.program.value_encoder import Media, encode_value
from toolfold_guest.shared.call_style import KEYWORDS, Style, ToolFacts, bind, leaves_coroutines, style_of
from toolfold_guest.shared.reserved_names import ANY_TOOL, NOTEBOOK_NAMES, PROGRAMS, RESERVED
from toolfold_guest.shared.wire_format import BYTES_KEY, MEDIA_KEY
from toolfold_guest.stdlib import notebook
from toolfold_guest.stdlib.notebook import LenientDatetime, Returned, describe_files
from toolfold_guest.stdlib_names import CodeType

NOT_RESULTS = (types.FunctionType, types.ModuleType, type)
"""What a program may call `result` without meaning its value."""
Codes = tuple[types.CodeType, types.CodeType | None]
"""The body of a program, and its last expression."""
CO_COROUTINE = 0x80
LOOKS_UP_NAMES = frozenset(
    {"__globals__", "__main__", "dir", "eval", "exec", "f_globals", "globals", "locals", "modules", "vars"}
)
_frame = sys._getframe
_PROGRAM_FIELD = ToolFacts._fields.index("is_program")
_PRESET = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}


class Namespace:
    """The tools of one program, made into functions when they are asked for."""

    def __init__(self, channel: Channel, tools: list[tuple[Any, ...]], *, is_own: bool = True) -> None:
        """`is_own` is false for a saved program that the program calls."""
        self._has_programs = max(map(len, tools), default=0) > _PROGRAM_FIELD and any(map(_is_program, tools))
        if is_own and self._has_programs:
            # Any: it has the same methods.
            program_channel: Any = ProgramChannel(channel, tools)
            channel = program_channel
        self._channel = channel
        self._tools = tools
        self._is_own = is_own
        self.style: Style = "awaited"
        self._index: dict[str, int] = {}
        self.names: Mapping[str, int] = self._index
        """The tools' names, for a message that offers them."""
        for index, (_, python_name, aliases, *_) in enumerate(tools):
            self._index[python_name] = index
            for alias in aliases:
                self._index[alias] = index

    def prepare(self, text: str, names: dict[str, Any], file: str = FILENAME) -> Codes:
        """The code of a program, which finds what it mentions among `names`."""
        # What cannot be cut apart is compiled whole, with its rewrites.
        codes = compile_in_parts(text, file) or compile_program(text, file=file)
        mentioned = _mentioned(codes)
        tool_names = self.mentioned_tools(mentioned)
        if "async def" in text and leaves_coroutines(text):
            self._channel.habits.has_pending = True
        if tool_names or "tools" in text:
            self.style = style_of(text, tool_names)
            if self.style != "awaited":
                codes = self._recompile(text, tool_names, file) or codes
                mentioned = _mentioned(codes)
        self.fill(names, mentioned)
        for name in NOTEBOOK_NAMES if mentioned is None else NOTEBOOK_NAMES & mentioned:
            names.setdefault(name, notebook.ready(name))
        return codes

    def _recompile(self, text: str, tool_names: set[str], file: str) -> Codes | None:
        """The code of a program that does not await all its calls; `None` if that need not differ."""
        reading = self.reading(tool_names)
        if self.style == "mixed":
            return compile_program(text, tool_names or {"tools"}, reading, file)
        listed = {name for name in reading if f"[{name}(" in text}
        return compile_program(text, reading=listed, file=file) if listed else None

    def fill(self, names: dict[str, Any], mentioned: set[str] | None) -> None:
        """Put into the program's globals what it may use without an import.

        Of the tools only those that it mentions, for each one costs; `None` mentions them all.
        """
        bare = self.bare
        for name in self.mentioned_tools(mentioned):
            names[name] = bare(name)
        if self.style != "awaited":
            self._fill_pending(names, mentioned or ())
        names["ToolError"] = ToolError
        names["tools"] = tools = self.module()
        if self._has_programs and (mentioned is None or PROGRAMS in mentioned):
            pending_call.install()
            self._channel.habits.has_pending = True
            names[PROGRAMS] = tools.__dict__[PROGRAMS]
        if not self._is_own:
            names["__builtins__"] = {**vars(builtins), "__import__": functools.partial(_import_own, tools)}

    def _fill_pending(self, names: dict[str, Any], mentioned: Iterable[str]) -> None:
        """What the rewritten calls of a program that does not await them all refer to."""
        pending_call.install()
        self._channel.habits.has_pending = True
        names.update(
            {compiler.VALUE_NAME: pending_call.value_of, compiler.DEEP_NAME: pending_call.deep_value_of,
             compiler.USE_NAME: pending_call.use, compiler.TOGETHER_NAME: pending_call.together,
             compiler.ALL_NAME: pending_call.all_of, compiler.AWAIT_NAME: pending_call.awaited_value,
             compiler.AWAIT_ALL_NAME: pending_call.await_all, compiler.GETATTR_NAME: get_tool}
        )  # fmt: skip
        for name in mentioned:
            if name.startswith(PENDING_PREFIX):
                names[name] = self.pending(name.removeprefix(PENDING_PREFIX))
            elif name.startswith(BLOCKING_PREFIX):
                names[name] = self.blocking(name.removeprefix(BLOCKING_PREFIX), is_bare=True)

    def mentioned_tools(self, mentioned: set[str] | None) -> set[str]:
        return (set(self._index) if mentioned is None else self._index.keys() & mentioned) - RESERVED

    def reading(self, names: Iterable[str]) -> set[str]:
        return {name for name in names if self._facts(name)[1].is_read_only}

    def bare(self, name: str) -> Callable[..., Any]:
        if self.style == "awaited":
            return self.awaitable(name)
        return self.pending(name) if self.style == "mixed" else self.blocking(name, is_bare=True)

    def awaitable(self, name: str) -> Callable[..., Any]:
        index, facts = self._facts(name)
        call = self._channel.call
        is_plain = KEYWORDS.isdisjoint(facts.parameters) and all(map(str.isidentifier, facts.parameters))

        async def awaited(line: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return await call(index, facts.name, kwargs if is_plain and not args else bind(facts, args, kwargs), line)

        def tool(*args: Any, **kwargs: Any) -> Any:
            return awaited(line_of(_frame(1)), args, kwargs)

        awaited.__name__ = awaited.__qualname__ = name  # what a task and a warning call it
        pending_call.awaitable_codes.add(tool.__code__)
        return self._paged(_dressed(tool, name, facts), name, facts)

    def blocking(self, name: str, *, is_bare: bool = False) -> Callable[..., Any]:
        index, facts = self._facts(name)
        call = self._channel.call_in_place if is_bare else self._channel.call_blocking
        is_plain = KEYWORDS.isdisjoint(facts.parameters) and all(map(str.isidentifier, facts.parameters))

        def tool(*args: Any, **kwargs: Any) -> Any:
            arguments = kwargs if is_plain and not args else bind(facts, args, kwargs)
            return call(index, facts.name, arguments, line_of(_frame(1)))

        return self._paged(_dressed(tool, name, facts), name, facts)

    def by_any_name(self, name: str) -> Callable[..., Any]:
        """A tool of which only the name is known; whoever answers the call knows whether there is one."""
        tool_name = name.removeprefix("async_")
        facts = ToolFacts(tool_name, tool_name, (), "", "", (), (), False, "")
        call = self.blocking(ANY_TOOL) if tool_name == name else self.awaitable(ANY_TOOL)

        def tool(*args: Any, **kwargs: Any) -> Any:
            return call(tool_name=tool_name, arguments=bind(facts, args, kwargs))

        return _dressed(tool, name, facts)

    def pending(self, name: str) -> Callable[..., Any]:
        index, facts = self._facts(name)
        channel = self._channel

        def tool(*args: Any, **kwargs: Any) -> Any:
            line, is_read_only = line_of(_frame(1)), facts.is_read_only
            arguments = functools.partial(bind, facts, args, kwargs)
            return PendingCall(Maker(facts.name, index, arguments, channel, line=line, is_read_only=is_read_only))

        pending_call.awaitable_codes.add(tool.__code__)
        return self._paged(_dressed(tool, name, facts), name, facts)

    def _paged(self, tool: Callable[..., Any], name: str, facts: ToolFacts) -> Callable[..., Any]:
        if NEXT_PAGE in facts.parameters:
            ways = functools.partial(self.awaitable, name), functools.partial(self.blocking, name)
            tool.pages = functools.partial(Pages, name, ways)  # type: ignore[attr-defined]
        return tool

    def _facts(self, name: str) -> tuple[int, ToolFacts]:
        index = self._index[name]
        return index, ToolFacts(*self._tools[index])

    def module(self) -> types.ModuleType:
        """`tools`, with one submodule for each domain, importable by name."""
        root = ToolsModule(self, "tools", dict.fromkeys(self._index, ""))
        modules = sys.modules if self._is_own else {}
        modules["tools"] = root
        domains: dict[str, dict[str, str]] = {}
        for name, index in self._index.items():
            _, python_name, _, domain, short_name, *_ = self._tools[index]
            if domain:
                members = domains.setdefault(domain, {})
                members[name] = ""
                if short_name and short_name not in self._index:
                    members.setdefault(short_name, python_name)
        for domain, members in domains.items():
            kind = ProgramsModule if domain == PROGRAMS and self._has_programs else ToolsModule
            module = kind(self, f"tools.{domain}", members)
            root.__dict__[domain] = modules[module.__name__] = module
        return root


class ToolsModule(types.ModuleType):
    """A module whose attributes are synchronous tools, and awaitable ones under `async_`."""

    def __init__(self, namespace: Namespace, name: str, members: dict[str, str]) -> None:
        """`members` has the name to look each one up by, where that is another."""
        super().__init__(name, "The tools of this program.")
        self.__dict__["__path__"] = []
        # `from tools import *` would bring the synchronous ones; the bare names are there already.
        self.__dict__["__all__"] = []
        self.__dict__["_namespace"] = namespace
        self.__dict__["_members"] = members

    def __getattr__(self, name: str) -> Any:
        members, namespace = self.__dict__["_members"], self.__dict__["_namespace"]
        if name in members:
            member = namespace.blocking(members[name] or name)
        elif name.startswith("async_") and name[6:] in members:
            member = namespace.bare(members[name[6:]] or name[6:])
        elif name.startswith("async_") and name[6:] in self.__dict__:
            member = self.__dict__[name[6:]]  # `from tools import hr`: a domain, not a tool
        elif name in ("ToolError", "async_ToolError"):
            member = ToolError
        elif name in ("describe_files", "async_describe_files"):
            member = describe_files
        elif ANY_TOOL in members and not name.startswith("__"):
            member = namespace.by_any_name(name)
        else:
            raise AttributeError(_no_tool(name.removeprefix("async_"), members)) from None
        self.__dict__[name] = member
        return member

    def __dir__(self) -> list[str]:
        return sorted(self.__dict__["_members"].keys() - {ANY_TOOL})


class ProgramsModule(ToolsModule):
    """The saved programs, for `programs.name(...)`: made when it is awaited or its value is used."""

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__["_members"]:
            return self.__dict__["_namespace"].pending(name)
        return super().__getattr__(name)


def get_tool(module: Any, name: str, *default: Any) -> Any:
    """`getattr(tools, name)` whose calls the program awaits."""
    if isinstance(module, ToolsModule) and not name.startswith("async_"):
        name = f"async_{name}"
    return getattr(module, name, *default)


def _dressed(function: Callable[..., Any], name: str, facts: ToolFacts) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = f"tools.{facts.domain}" if facts.domain else "tools"
    function.__doc__ = facts.doc
    if facts.signature:
        function.__signature__ = _signature(facts.signature)  # type: ignore[attr-defined]
    return function


class _TypeText(str):
    """An annotation that shows without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _signature(text: str) -> inspect.Signature:
    """What `inspect.signature` and `help` show; the function itself takes anything."""
    definition: Any = ast.parse(f"def tool{text}: ...").body[0]
    arguments = definition.args
    parameters = [
        inspect.Parameter(
            argument.arg, inspect.Parameter.KEYWORD_ONLY, annotation=_typed(argument), default=_default(default)
        )
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    ]
    if arguments.kwarg is not None:
        kind = inspect.Parameter.VAR_KEYWORD
        parameters.append(inspect.Parameter(arguments.kwarg.arg, kind, annotation=_typed(arguments.kwarg)))
    return inspect.Signature(parameters, return_annotation=_TypeText(ast.unparse(definition.returns)))


def _typed(argument: ast.arg) -> _TypeText:
    return _TypeText(ast.unparse(argument.annotation or ast.Constant(None)))


def _default(node: ast.expr | None) -> Any:
    return inspect.Parameter.empty if node is None else ast.literal_eval(node)


def _no_tool(name: str, members: dict[str, str]) -> str:
    near = difflib.get_close_matches(name, members, 1)
    return f"no tool {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def preset(name: str) -> Any:
    """What a program may use without an import although it is no tool: `asyncio`, `json`, `pd`, ..."""
    if name == "datetime":
        return LenientDatetime()
    full_name = _PRESET.get(name, name)
    return sys.modules.get(full_name) or importlib.import_module(full_name)


_json_loads = json.loads


def lenient_loads(text: Any, *args: Any, **kwargs: Any) -> Any:
    """`json.loads` that gives a dict or list back: models parse replies that are values already."""
    text = value_of(text)
    if isinstance(text, dict | list):
        return text
    return _json_loads(text, *args, **kwargs)


# ----------------------------------------------------------------------------------------------------
# The pages of a list, one call after the other; how a page is asked for is an ordinary call of the tool.

NEXT_PAGE = "next_query"
"""The argument of tools that answer page by page: what their reply, asked for with `with_response`, calls `next`."""
MOST_PAGES = 100


class Pages:
    """For `async for` and for `for`; each page is read when it is asked for.

    `ways` make the tool as a function to await, and as one that waits. Raises `ToolError` where there is more that it
    does not read, unless `max_pages` says so.
    """

    def __init__(
        self, name: str, ways: tuple[Callable[[], Any], Callable[[], Any]], /, *args: Any, max_pages: int | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        self._name = name
        self._awaitable, self._blocking = ways
        self._args, self._kwargs, self._max_pages = args, kwargs, max_pages

    async def __aiter__(self) -> AsyncIterator[Any]:
        call, following = self._awaitable(), dict[str, str]()
        for number in self._numbers():
            reply = await call(*self._args, **self._kwargs, **following, with_response=True)
            if reply["status"] < 400:  # else it was a guess, past the last page
                yield reply["body"]
            following = {NEXT_PAGE: self._next(reply, number)}
            if not following[NEXT_PAGE]:
                return

    def __iter__(self) -> Iterator[Any]:
        call, following = self._blocking(), dict[str, str]()
        for number in self._numbers():
            reply = call(*self._args, **self._kwargs, **following, with_response=True)
            if reply["status"] < 400:
                yield reply["body"]
            following = {NEXT_PAGE: self._next(reply, number)}
            if not following[NEXT_PAGE]:
                return

    def _numbers(self) -> Iterator[int]:
        yield from range(1, 1 + (MOST_PAGES if self._max_pages is None else self._max_pages))
        if self._max_pages is None:
            raise ToolError(f"{self._name}.pages() has read {MOST_PAGES} pages, and there are more; pass max_pages=...")

    def _next(self, reply: Any, number: int) -> str:
        unread = reply.get("unread")
        if unread and number != self._max_pages:
            raise ToolError(f"{self._name}.pages() cannot read everything: {unread}")
        return reply["next"] or ""


def _mentioned(codes: Codes) -> set[str] | None:
    """Every global name in the program's code; `None` if it looks names up by itself."""
    names: set[str] = set()
    open_codes = [code for code in codes if code is not None]
    while open_codes:
        code = open_codes.pop()
        # Functions and classes are constants of the code around them.
        names.update(code.co_names)
        open_codes.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
    return names if names.isdisjoint(LOOKS_UP_NAMES) else None


# ----------------------------------------------------------------------------------------------------
# Saved programs that the program calls. The host's reply to such a call is a text: it runs here, with names of its own,
# and its calls are calls of this execution that say within which call they were made. To the host it is one program.

MOST_WITHIN = 8
"""Saved programs within each other; one that calls itself ends there."""
_import = builtins.__import__


class SavedProgramFailed(ToolError):
    """What the program reads of it is a `ToolError` like any other."""

    __module__, __qualname__ = "builtins", "ToolError"


class ProgramChannel:
    """The program's channel, apart from calls of saved programs."""

    def __init__(self, channel: Channel, tools: list[tuple[Any, ...]]) -> None:
        self._channel, self._tools = channel, tools
        self._callers: dict[int, tuple[str, ...]] = {0: ()}
        """By call: the saved programs around it, and its own."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def call(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        if not self._is_program(index):
            return await self._channel.call(index, name, arguments, line)
        site = self._site(name, line)
        reply = await self._channel.call(index, name, arguments, site)
        codes, names = self._prepare(reply, arguments, site)
        return await _value_of(codes, names, reply)

    def call_blocking(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        if not self._is_program(index):
            return self._channel.call_blocking(index, name, arguments, line)
        site = self._site(name, line)
        reply = self._channel.call_blocking(index, name, arguments, site)
        codes, names = self._prepare(reply, arguments, site)
        coroutine = _value_of(codes, names, reply)
        if "asyncio" in reply["text"] or any(code.co_flags & CO_COROUTINE for code in codes if code):
            return asyncio.run(coroutine)
        try:
            coroutine.send(None)
        except StopIteration as done:
            return done.value
        raise RuntimeError("it awaits nothing, and yet it waits")

    def call_in_place(self, index: int, name: str, arguments: dict[str, Any], line: int) -> Any:
        if not self._is_program(index):
            return self._channel.call_in_place(index, name, arguments, line)
        return self.call_blocking(index, name, arguments, line)

    def _is_program(self, index: int) -> bool:
        return _is_program(self._tools[index])

    def _site(self, name: str, line: int) -> CallSite:
        site = CallSite(line)
        site.within = line.within if type(line) is CallSite else 0
        callers = self._callers.get(site.within, ())
        if len(callers) >= MOST_WITHIN:
            chain = " calls ".join((*callers, name))
            raise SavedProgramFailed(f"saved programs call each other {MOST_WITHIN} deep at most: {chain}")
        return site

    def _prepare(self, reply: Any, arguments: dict[str, Any], site: CallSite) -> tuple[Codes, dict[str, Any]]:
        name, text = reply["program"], reply["text"]
        self._callers[site.call_id] = (*self._callers.get(site.within, ()), name)
        given = {**reply["defaults"], **arguments}
        names = {"__name__": "__main__", RETURN_NAME: Returned, CALL_NAME: site.call_id}
        names |= {preset_name: preset(preset_name) for preset_name in reply["presets"]}
        # Any: it has the same methods as a channel.
        channel: Any = self
        file = f"{FILENAME[:-1]}:{name}>"
        try:
            codes = Namespace(channel, self._tools, is_own=False).prepare(text, names, file)
        except SyntaxError as error:
            raise SavedProgramFailed(f"{name!r} failed: {error}") from None
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        return codes, {**names, **given, "arguments": given}


def _is_program(facts: tuple[Any, ...]) -> bool:
    return len(facts) > _PROGRAM_FIELD and bool(facts[_PROGRAM_FIELD])


async def _value_of(codes: Codes, names: dict[str, Any], reply: Any) -> Any:
    """What the saved program gives: its value, else what it printed."""
    name, value, printed = reply["program"], None, io.StringIO()
    names["print"] = functools.partial(_print, printed)
    try:
        for code in codes:
            if code is not None:
                value = eval(code, names)
                if code.co_flags & CO_COROUTINE:
                    value = await value
        if value is None and not isinstance(names.get("result"), NOT_RESULTS):
            value = names.get("result")
        if type(value) is types.CoroutineType:
            value = await value
    except Returned as returned:
        value = returned.value
    except SystemExit as leaving:
        if leaving.code:
            raise SavedProgramFailed(f"{name!r} failed: SystemExit: {leaving.code}") from None
    except SavedProgramFailed:
        raise  # of the program that it calls: that says where
    except Exception as error:  # noqa: BLE001  # whatever it raises, its caller reads as a failed call
        raise SavedProgramFailed(f"{name!r} failed: {_failure(error)}") from None
    if value is None:
        return printed.getvalue() or None
    return json.loads(encode_value(value)[0], object_hook=_unmarked)


def _print(printed: Any, *values: Any, file: Any = None, flush: bool = False, **options: Any) -> None:
    print(*values, file=printed if file is None else file, flush=flush, **options)


def _failure(error: Exception) -> str:
    """Type and text, and the last line of the saved program that led to it."""
    line, tb = 0, error.__traceback__
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        line = tb.tb_lineno if file != FILENAME and file.startswith(FILENAME[:-1]) else line
        tb = tb.tb_next
    kind = "" if type(error) is ToolError else f"{type(error).__qualname__}: "
    return f"{kind}{error}" + (f" (at its line {line})" if line else "")


def _unmarked(value: dict[str, Any]) -> Any:
    """Bytes and media of a value, as they are in the guest."""
    if BYTES_KEY in value:
        return base64.b64decode(value[BYTES_KEY])
    if MEDIA_KEY in value:
        kind, mime, data, *rest = value[MEDIA_KEY]
        return Media(kind, mime, base64.b64decode(data), *rest)
    return value


def _import_own(tools: Any, name: str, *rest: Any, **options: Any) -> Any:
    """`import tools` of a saved program: its own, for the program around it may call tools in another style."""
    root, _, domain = name.partition(".")
    if root != "tools":
        return _import(name, *rest, **options)
    names = rest[2] if len(rest) > 2 else options.get("fromlist")
    return getattr(tools, domain) if domain and names else tools
