"""Fakes for the tests of programs that use toolfold: a scripted engine, and a runtime around it."""

from collections.abc import Callable, Sequence
from typing import Any

from toolfold.engines.base import Called, Died, Ended, Event, Order, Printed, Waiting
from toolfold.engines.scripted import ScriptedEngine
from toolfold.runtime import Runtime
from toolfold.tools.tool import Tool

__all__ = ["Called", "Died", "Ended", "Event", "Order", "Printed", "ScriptedEngine", "Waiting", "scripted"]


def scripted(
    *events: Event, tools: Sequence[Tool | Callable[..., Any]] = (), waits: bool = True
) -> tuple[Runtime, ScriptedEngine]:
    """A runtime whose programs are these events, and the engine that remembers the answers."""
    engine = ScriptedEngine(*events, waits=waits)
    return Runtime(tools=tools, engine=engine), engine
