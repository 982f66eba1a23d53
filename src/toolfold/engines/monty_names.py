"""Tools as Monty knows them: by dotted name, each either awaitable or synchronous."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolfold.models import ToolSpec
from toolfold.protocol.codec import tool_facts
from toolfold_guest.awaiting import ASYNC_PREFIX
from toolfold_guest.namespace import ToolFacts, bind
from toolfold_guest.reserved import RESERVED


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
