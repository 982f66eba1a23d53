"""Tools as Monty knows them: by dotted name, each either awaitable or synchronous."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolfold.engines.base import Order
from toolfold.models import Call, Limits, Problem, ToolSpec, Value
from toolfold.protocol.codec import tool_facts
from toolfold.tools.values import json_size
from toolfold_guest.shared.call_style import ASYNC_PREFIX, ToolFacts, bind, style_of
from toolfold_guest.shared.names import RESERVED


class OverLimitError(Exception):
    """The program went over a limit that the host counts."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class Toolbox:
    """The tools of one program, and how its text calls them."""

    def __init__(self, order: Order) -> None:
        self._tools = tools_by_name(order.tools)
        self._limits: Limits = order.limits
        self.bare_names = frozenset(name for name in self._tools if "." not in name)
        """What programs call without a module."""
        self._calls_in_place = style_of(order.program.text, list(self.bare_names)) == "in_place"
        self._says_tools = "tools." in order.program.text
        self.in_place: Counter[str] = Counter()
        """Calls that were made where the program did not await them; the outcome has a hint for it."""

    def find(self, name: str) -> Tool | None:
        """The tool that a program means by a name."""
        return self._tools.get(name)

    # Any: Monty's classes are known only once the optional package is there.
    def module(self, external_module: Callable[[dict[str, Any]], Any]) -> Any:
        """The module `tools`, with one module inside for each domain."""
        return _module("tools", modules_of(self._tools), external_module)

    def gives_future(self, tool: Tool, *, is_awaited: bool) -> bool:
        """Whether a call is awaited; else the program stands in it until its reply is there."""
        if is_awaited or (tool.is_awaitable and not self._calls_in_place):
            return True
        if not self._says_tools:
            self.in_place[tool.spec.name] += 1
        return False

    def call(self, tool: Tool, arguments: dict[str, Value], made: int) -> Call:
        """The next call of a program that has `made` so many.

        Raises:
            ValueError: its arguments are too large.
            OverLimitError: it is one too many.
        """
        name, limits = tool.spec.name, self._limits
        size = json_size(arguments)
        if size > limits.value_bytes:
            raise ValueError(f"the arguments of {name!r} take {size} bytes; the limit is {limits.value_bytes}")
        if made >= limits.calls:
            raise OverLimitError(Problem(kind="calls", message=f"the program made more than {limits.calls} tool calls"))
        return Call(id=made + 1, tool=name, arguments=arguments)


@dataclass(frozen=True, slots=True)
class Tool:
    """One spelling of a tool."""

    spec: ToolSpec
    is_awaitable: bool

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Positional arguments and one positional dict as named ones, by the rule of every engine."""
        return dict(bind(ToolFacts(*tool_facts(self.spec)), args, kwargs)) if args else kwargs


def tools_by_name(specs: Sequence[ToolSpec]) -> dict[str, Tool]:
    """Every name under which a program can reach a tool: `price`, `tools.price`, `tools.hr.async_price`, ..."""
    found: dict[str, Tool] = {}
    for spec in specs:
        if spec.domain and spec.short_name:
            found.setdefault(f"tools.{spec.domain}.{spec.short_name}", Tool(spec, is_awaitable=False))
            found.setdefault(f"tools.{spec.domain}.{ASYNC_PREFIX}{spec.short_name}", Tool(spec, is_awaitable=True))
        for name in (spec.python_name, *spec.aliases):
            if name not in RESERVED:
                found[name] = Tool(spec, is_awaitable=True)
            for module in ("tools", f"tools.{spec.domain}") if spec.domain else ("tools",):
                found[f"{module}.{name}"] = Tool(spec, is_awaitable=False)
                found[f"{module}.{ASYNC_PREFIX}{name}"] = Tool(spec, is_awaitable=True)
    return found


def modules_of(names: Mapping[str, Tool]) -> dict[str, set[str]]:
    """The names in each module: `{"tools": {...}, "tools.hr": {...}}`."""
    modules: dict[str, set[str]] = {"tools": set()}
    for dotted in names:
        module, _, name = dotted.rpartition(".")
        if module:
            modules.setdefault(module, set()).add(name)
    return modules


# Any: as in `Toolbox.module`.
def _module(path: str, modules: dict[str, set[str]], external_module: Callable[[dict[str, Any]], Any]) -> Any:
    attributes: dict[str, Any] = {name: stub(name) for name in modules[path]}
    for dotted in modules:
        outside, _, name = dotted.rpartition(".")
        if outside == path:
            attributes[name] = _module(dotted, modules, external_module)
    return external_module(attributes)


def stub(name: str) -> Callable[[], None]:
    """A host function as far as Monty is concerned; its name is what comes back in a call."""

    def tool() -> None:
        return None

    tool.__name__ = tool.__qualname__ = name
    return tool
