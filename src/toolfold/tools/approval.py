"""The step that asks before a call. Who answers, and how long it takes, is the context's business."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from toolfold.errors import ToolRefused
from toolfold.models import Call, ToolSpec, Value
from toolfold.tools.context import CallContext, Decision
from toolfold.tools.policy import Policy
from toolfold.tools.router import Handler, Request, Wrapper, preparation
from toolfold.tools.tool import Tool

NOBODY_CAN_APPROVE: Final = Decision(approved=False, reason="it needs approval, and nobody can give it here")
_log: Final = logging.getLogger(__name__)


def approval(policy: Policy) -> Wrapper:
    """Asks for each call of the tools that the policy says to ask for; anything but a yes refuses."""

    def wrap(tool: Tool, rest: Handler) -> Handler:
        return _asking(tool, rest) if policy.asks(tool.spec) else rest

    return wrap


async def deny(_call: Call, _spec: ToolSpec) -> Decision:
    """An `Approve` for doors whose programs may pause for their tools, and that have nobody to ask for a yes."""
    return NOBODY_CAN_APPROVE


def _asking(tool: Tool, rest: Handler) -> Handler:
    name = tool.spec.name

    async def ask(request: Request) -> Value:
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


async def _decision(tool: Tool, request: Request) -> Decision:
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
