"""Approval and budget steps: one asks before a call, the other counts the calls of one program."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Final

import msgspec

from toolfold.errors import ToolRefused
from toolfold.models import Call, ToolSpec, Value
from toolfold.tools.policy import Policy
from toolfold.tools.router import CallRequest, Handler, Wrapper, preparation
from toolfold.tools.tool import CallContext, Decision, Tool

NOBODY_CAN_APPROVE: Final = Decision(approved=False, reason="it needs approval, and nobody can give it here")
_log: Final = logging.getLogger(__name__)


def approval(policy: Policy) -> Wrapper:
    """Asks for each call of the tools that the policy says to ask for; anything but a yes refuses."""

    def wrap(tool: Tool, rest: Handler) -> Handler:
        return _asking(tool, rest) if policy.asks(tool.spec) else rest

    return wrap


async def deny(_call: Call, _spec: ToolSpec) -> Decision:
    """An `Approve` for interfaces whose programs may pause for their tools, and that have nobody to ask for a yes."""
    return NOBODY_CAN_APPROVE


def _asking(tool: Tool, rest: Handler) -> Handler:
    name = tool.spec.name

    async def ask(request: CallRequest) -> Value:
        decision = await _decision(tool, request)
        if not decision.approved:
            raise ToolRefused(f"{name!r} was denied" + (f": {decision.reason}" if decision.reason else ""))
        if decision.arguments is not None:
            edited = dict(decision.arguments)
            request.arguments = preparation(tool)(edited)
            # The steps after this one remember calls by what was approved, not by what was asked.
            request.call = msgspec.structs.replace(request.call, arguments=edited)
            request.note(arguments=edited)
        return await rest(request)

    return ask


async def _decision(tool: Tool, request: CallRequest) -> Decision:
    name = tool.spec.name
    approve = (request.context or CallContext()).approve
    if approve is None:
        return NOBODY_CAN_APPROVE
    try:
        return await approve(request.call, tool.spec)
    # A broken way to ask must refuse: it may raise anything, and none of it is for the program to read.
    except Exception as error:
        _log.exception("asking for approval of %r failed", name)
        raise ToolRefused(f"{name!r} needs approval, and asking for it failed") from error


# ----------------------------------------------------------------------------------------------------
# The step that counts: how often one program may call one tool.


def budget(policy: Policy) -> Wrapper:
    """Refuses the calls of a program beyond the policy's `max_calls`; a direct call has no program."""

    def wrap(tool: Tool, rest: Handler) -> Handler:
        most = policy.max_calls(tool.spec)
        return rest if most is None else _counting(tool.spec.name, most, rest)

    return wrap


def _counting(name: str, most: int, rest: Handler) -> Handler:
    def count(request: CallRequest) -> Awaitable[Value]:
        if request.context is not None and request.caller == "code":
            calls = request.context.spent.calls
            if calls[name] >= most:
                raise ToolRefused(f"{name!r} is out of budget: {calls[name]} of {most} calls used in this program")
            calls[name] += 1
        return rest(request)

    return count
