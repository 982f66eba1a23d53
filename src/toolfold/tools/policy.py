"""Policy of calls: allow, block, ask, and how often. The same for a program and for a direct call.

A blocked tool stays known, so that the check lets its name pass and the call itself says why not.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, TypeAlias

from toolfold.errors import ToolRefused, UsageError
from toolfold.models import Call, ToolSpec, Value
from toolfold.tools.router import CallRequest, Handler
from toolfold.tools.tool import CallContext, Globs, Tool, least, positive

Condition: TypeAlias = Callable[[Call, CallContext], bool | str | Awaitable[bool | str]]
_log: Final = logging.getLogger(__name__)


class Policy:
    """Patterns over a tool's name, identifier and aliases.

    Args:
        allow: Only these tools may be called; `None` is all of them, an empty list none.
        block: These may not; not together with `allow`.
        ask: Each call of these needs approval. A tool that `allow` leaves out stays refused.
        ask_destructive: Each call of a tool that is marked destructive needs approval, too.
        max_calls: How often each tool may be called in one program; the smallest number counts.
        when: Decides on each call by its arguments, its tenant or the time: a function, async or not, of the call and
            its context that returns `True`, or the reason why not. By pattern, or one function for all tools.

    Raises:
        UsageError: both `allow` and `block` are given, or a number is less than 1.
    """

    def __init__(
        self, *, allow: Iterable[str] | None = None, block: Iterable[str] = (), ask: Iterable[str] = (),
        ask_destructive: bool = False, max_calls: Mapping[str, int] | None = None,
        when: Condition | Mapping[str, Condition] | None = None,
    ) -> None:  # fmt: skip
        self._allow = None if allow is None else Globs(allow)
        self._block = Globs(block)
        self._ask = Globs(ask)
        self._ask_destructive = ask_destructive
        self._max_calls = positive(max_calls or {}, "max_calls")
        self._when: Mapping[str, Condition] = {"*": when} if callable(when) else when or {}
        if self._allow is not None and self._block.patterns:
            raise UsageError("a policy takes allow or block, not both; allow already refuses all others")

    def permits(self, spec: ToolSpec) -> bool:
        """Whether it may be called at all."""
        if self._block.match(spec):
            return False
        return self._allow is None or self._allow.match(spec)

    def asks(self, spec: ToolSpec) -> bool:
        """Whether each call needs approval."""
        return self._ask.match(spec) or (self._ask_destructive and spec.destructive)

    def max_calls(self, spec: ToolSpec) -> int | None:
        """Number of calls that one program may make; `None` if only its limits apply."""
        return least(self._max_calls, spec)

    def gate(self, tool: Tool, rest: Handler) -> Handler:
        """The step that refuses what is not permitted."""
        return rest if self.permits(tool.spec) else _refusing(tool.spec.name)

    def conditions(self, spec: ToolSpec) -> tuple[Condition, ...]:
        """Functions that decide on each call; search, which toolfold itself offers, has none."""
        if spec.source == "toolfold":
            return ()
        return tuple(condition for pattern, condition in self._when.items() if Globs([pattern]).match(spec))

    def condition_gate(self, tool: Tool, rest: Handler) -> Handler:
        """The step that asks the conditions, once the arguments are known to fit."""
        if not self.conditions(tool.spec):
            return rest

        async def ask(request: CallRequest) -> Value:
            await self.check_conditions(tool.spec, request)
            return await rest(request)

        return ask

    async def check_conditions(self, spec: ToolSpec, request: CallRequest) -> None:
        """Raises `ToolRefused` unless each condition is `True`; one that fails refuses, and only the log says how."""
        for condition in self.conditions(spec):
            try:
                answer = condition(request.call, request.context or CallContext())
                answer = await answer if inspect.isawaitable(answer) else answer
            except Exception as error:
                _log.exception("the condition for %r failed", spec.name)
                raise ToolRefused(f"{spec.name!r} was not called: its condition failed") from error
            if answer is not True:
                reason = f": {answer}" if isinstance(answer, str) and answer else " by its condition"
                raise ToolRefused(f"{spec.name!r} was refused{reason}")


def _refusing(name: str) -> Handler:
    def refuse(request: CallRequest) -> Awaitable[Value]:
        entry = request.context.entry_name if request.context is not None else ""
        raise ToolRefused(f"{name!r} is not available in {entry or _PLACES[request.caller]}")

    return refuse


_PLACES: Final = {"code": "a program", "direct": "direct calls"}
