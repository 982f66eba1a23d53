"""The step that counts: how often one program may call one tool."""

from __future__ import annotations

from collections.abc import Awaitable

from toolfold.errors import ToolRefused
from toolfold.models import Value
from toolfold.tools.policy import Policy
from toolfold.tools.router import Handler, Request, Wrapper
from toolfold.tools.tool import Tool


def budget(policy: Policy) -> Wrapper:
    """Refuses the calls of a program beyond the policy's `max_calls`; a direct call has no program."""

    def wrap(tool: Tool, rest: Handler) -> Handler:
        most = policy.max_calls(tool.spec)
        return rest if most is None else _counting(tool.spec.name, most, rest)

    return wrap


def _counting(name: str, most: int, rest: Handler) -> Handler:
    def count(request: Request) -> Awaitable[Value]:
        if request.context is not None and request.caller == "code":
            calls = request.context.spent.calls
            if calls[name] >= most:
                raise ToolRefused(f"{name!r} is out of budget: {calls[name]} of {most} calls used in this program")
            calls[name] += 1
        return rest(request)

    return count
