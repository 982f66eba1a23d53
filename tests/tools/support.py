"""What the tests of the wrappers share: a clock that only a test moves, and tools that follow a plan."""

from collections.abc import Mapping
from typing import Any

from toolfold.models import Call, Reply, ToolSpec, Value
from toolfold.tools import Catalog, Router, Tool
from toolfold.tools.router_steps import wrappers
from toolfold.tools.tool import CallContext


class FakeClock:
    """Stands still; a sleep moves it on and is noted."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class Planned:
    """A tool's call that returns or raises what is next in its plan; the last one stays."""

    def __init__(self, *plan: Any) -> None:
        self.plan = list(plan)
        self.arguments: list[Mapping[str, Any]] = []

    async def __call__(self, arguments: Mapping[str, Any]) -> Any:
        self.arguments.append(arguments)
        step = self.plan.pop(0) if len(self.plan) > 1 else self.plan[0]
        if isinstance(step, BaseException):
            raise step
        return step

    @property
    def calls(self) -> int:
        return len(self.arguments)


def made(call: Any, name: str = "x", *, retry: Any = "safe", **fields: Any) -> Tool:
    fields.setdefault("python_name", name)
    return Tool(spec=ToolSpec(name=name, **fields), call=call, retry=retry)


def router_of(*tools: Tool, **options: Any) -> Router:
    return Router(Catalog(tools), wrappers=wrappers(**options))


async def serve(router: Router, tool: str = "x", *, caller: Any = "code", **arguments: Value) -> Reply:
    return await router.serve(Call(id=1, tool=tool, arguments=arguments), caller=caller)


async def serve_in(context: CallContext, router: Router, tool: str = "x", **arguments: Value) -> Reply:
    return await router.serve(Call(id=1, tool=tool, arguments=arguments), context=context)
