"""Descriptions of tools that other processes build for themselves; a tool is never sent as an object.

Only tools whose calls need nothing of the runtime can be: no approval, no count, no queue, no context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from toolfold.errors import UsageError
from toolfold.models import ToolSpec, Value
from toolfold.tools.catalog import Catalog
from toolfold.tools.learned_replies import Learning
from toolfold.tools.policy import Policy
from toolfold.tools.router import CallRequest, Wrapper, checked, from_record, withholding
from toolfold.tools.router_steps import (
    Breaker,
    BreakerStep,
    Concurrency,
    Retry,
    RetryStep,
    SystemClock,
    approval,
    budget,
    remembering,
)
from toolfold.tools.tool import RetryWhen, Tool


class ShippedTool(msgspec.Struct, frozen=True, kw_only=True):
    """Description of one tool for another process."""

    spec: ToolSpec
    origin: str
    """As in `Tool`."""
    retry: RetryWhen = "safe"


class Shipment(msgspec.Struct, frozen=True, kw_only=True):
    """The tools that another process is to make."""

    tools: tuple[ShippedTool, ...]
    error_details: bool = True
    """Whether a program reads more of a tool's error than its type."""
    breaker: Breaker = Breaker()
    retry: Retry = Retry()


def shipment(names: Iterable[str], catalog: Catalog, policy: Policy, steps: Sequence[Wrapper]) -> Shipment:
    """These tools, described for a process that serves their calls; `UsageError` says which one cannot be and why."""
    shipped = []
    for name in dict.fromkeys(names):
        tool = catalog.find(name)
        if tool is None:
            near = catalog.nearest(name)
            raise UsageError(f"tools_on_nodes: no tool {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        reason = _why_not(tool, policy, steps)
        if reason:
            raise UsageError(f"tools_on_nodes: {name!r} cannot run on nodes: {reason}")
        shipped.append(ShippedTool(spec=tool.spec, origin=tool.origin, retry=tool.retry))
    breaker, retry = _settings(steps) or (Breaker(), Retry())
    return Shipment(tools=tuple(shipped), error_details=withholding not in steps, breaker=breaker, retry=retry)


def _why_not(tool: Tool, policy: Policy, steps: Sequence[Wrapper]) -> str:
    spec = tool.spec
    reasons = {
        "the policy does not permit it": not policy.permits(spec) or _acts(Policy.gate, tool, steps),
        "it is neither read-only nor idempotent, and a call whose node is lost is made again": not (
            spec.read_only or spec.idempotent
        ),
        "a condition decides on its calls, which is asked where the runtime is": (
            bool(policy.conditions(spec)) or _acts(Policy.condition_gate, tool, steps)
        ),
        "its calls need approval, which is asked for where the runtime is": (
            policy.asks(spec) or _acts(approval, tool, steps)
        ),
        "max_calls limits it, and only the runtime can count its calls": (
            policy.max_calls(spec) is not None or _acts(budget, tool, steps)
        ),
        "max_in_flight limits it, and only the runtime can count its calls": any(
            isinstance(owner, Concurrency) and owner.limits(spec) for owner in map(_owner, steps)
        ),
        "its replies are cached, and the cache is the runtime's": spec.cache_seconds > 0,
        "a router step of your own serves its calls, and nodes do not have it": not _KNOWN.issuperset(
            map(_maker, steps)
        ),
        "it is retried or left alone otherwise than with wrappers(), and nodes have no other steps": (
            _settings(steps) is None
        ),
        "it takes a CallContext, which only the runtime has": tool.call_within is not None,
        "nodes import tools, and it is not a function at the top level of a module": not tool.origin,
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")


def _acts(kind: Callable[..., object], tool: Tool, steps: Sequence[Wrapper]) -> bool:
    """Whether a step of this kind does a thing to calls of this tool: the steps may have another policy."""
    of_kind = [step for step in steps if _maker(step) == _maker(kind)]
    # One that has nothing to do returns what it was given.
    return any(step(tool, _rest) is not _rest for step in of_kind)


def _maker(step: Callable[..., object]) -> tuple[str, str]:
    """The function that a step is, or that made it."""
    return getattr(step, "__module__", ""), getattr(step, "__qualname__", "").partition(".<locals>")[0]


async def _rest(_: CallRequest) -> Value:
    raise AssertionError("nothing is called")


def _settings(steps: Sequence[Wrapper]) -> tuple[Breaker, Retry] | None:
    """Settings of the steps that nodes make for themselves; `None` if these are not just the two of `wrappers()`."""
    match [owner for owner in map(_owner, steps) if isinstance(owner, BreakerStep | RetryStep)]:
        case [BreakerStep() as first, RetryStep() as second]:
            parts = (first.breaker, first.clock, second.retry, second.clock)
            # A class of one's own may do anything, and only its fields would be sent.
            if [type(part) for part in parts] == [Breaker, SystemClock, Retry, SystemClock]:
                return first.breaker, second.retry
    return None


def _owner(step: Wrapper) -> object:
    return getattr(step, "__self__", None)


_STEPS: Final[tuple[Callable[..., object], ...]] = (
    withholding, Policy.gate, checked, Policy.condition_gate, approval, budget, from_record, remembering,
    BreakerStep.wrap, RetryStep.wrap, Concurrency.wrap, Learning.wrap,
)  # fmt: skip
"""Steps that nodes make for themselves, and those that `_why_not` asks: a new one is refused until it is among them."""
_KNOWN: Final = frozenset(map(_maker, _STEPS))
