"""Namespace of a program: tools as functions, the module `tools`, names that need no import, pages."""

import ast
import difflib
import functools
import importlib
import inspect
import json
import sys
import types
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from typing import Any

from toolfold_guest.calls import pending_call
from toolfold_guest.calls.channel import Channel, ToolError, line_of
from toolfold_guest.calls.pending_call import Maker, PendingCall, value_of
from toolfold_guest.program import compiler
from toolfold_guest.program.compiler import BLOCKING_PREFIX, PENDING_PREFIX
from toolfold_guest.shared.call_style import KEYWORDS, Style, ToolFacts, bind
from toolfold_guest.shared.reserved_names import ANY_TOOL, RESERVED
from toolfold_guest.stdlib.notebook import LenientDatetime, describe_files

_frame = sys._getframe
_PRESET = {"np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot"}


class Namespace:
    """The tools of one program, made into functions when they are asked for."""

    def __init__(self, channel: Channel, tools: list[tuple[Any, ...]]) -> None:
        self._channel = channel
        self._tools = tools
        self.style: Style = "awaited"
        self._index: dict[str, int] = {}
        self.names: Mapping[str, int] = self._index
        """The tools' names, for a message that offers them."""
        for index, (_, python_name, aliases, *_) in enumerate(tools):
            self._index[python_name] = index
            for alias in aliases:
                self._index[alias] = index

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
        names["tools"] = self.module()

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
        sys.modules["tools"] = root
        domains: dict[str, dict[str, str]] = {}
        for name, index in self._index.items():
            _, python_name, _, domain, short_name, *_ = self._tools[index]
            if domain:
                members = domains.setdefault(domain, {})
                members[name] = ""
                if short_name and short_name not in self._index:
                    members.setdefault(short_name, python_name)
        for domain, members in domains.items():
            module = ToolsModule(self, f"tools.{domain}", members)
            root.__dict__[domain] = sys.modules[module.__name__] = module
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
