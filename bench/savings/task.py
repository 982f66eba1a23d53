"""What is replayed: turns of calls, and the world that they are really made in."""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol

from toolfold.models import ToolSpec
from toolfold.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class GoldCall:
    """One call that solves a part of the task."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the user says, and the calls that answer it."""

    said: str
    calls: Sequence[GoldCall]
    programs: Sequence[str] | None = None
    """Written by hand; without them, programs are written from the calls."""


class World(Protocol):
    """The other end of the tools. Each way of replaying a task gets a new one."""

    log: list[tuple[str, dict[str, Any], Any]]
    """Every call that arrived: name, arguments, result."""

    def tools(self) -> list[Tool]: ...

    def state(self) -> Any:
        """What the calls have changed, in values that can be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    name: str
    group: str
    turns: Sequence[Turn]
    specs: Sequence[ToolSpec]
    """All tools that the model is told of."""
    world: Callable[[], World]
    has_order: bool = True
    """The calls must arrive in the order of the turns; else they may overtake each other."""
    finds: str = ""
    """What a model looks for with `search_tools` before its first program, where signatures are not in its prompt."""


def logged(tool: Tool, log: list[tuple[str, dict[str, Any], Any]]) -> Tool:
    """The same tool, which writes down each call with its result."""

    async def noted(arguments: Mapping[str, Any]) -> Any:
        # A copy: a backend may keep a list that it is given, and change it later.
        result = await tool.call(deepcopy(dict(arguments)))
        log.append((tool.spec.name, dict(arguments), result))
        return result

    return replace(tool, call=noted)
