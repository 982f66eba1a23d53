"""`ConfigToolset`: the tools of a `toolfold.yaml` for an agent, by the names and the policy of every other door."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pydantic_ai import (
    AbstractToolset,
    ApprovalRequired,
    RunContext,
    ToolDefinition,
    ToolFailed,
    ToolsetTool,
    UserError,
)
from pydantic_ai.tools import AgentDepsT
from pydantic_core import SchemaValidator, core_schema

from toolfold.config import Config
from toolfold.config.build import runtime_options
from toolfold.engines.scripted import ScriptedEngine
from toolfold.interfaces.library import CONNECT_SECONDS, BridgedRuntime, from_config, resolve_config
from toolfold.interfaces.pydantic_ai.callers import FROM_CONFIG, MARK, is_listing_for_code
from toolfold.interfaces.pydantic_ai.nested_calls import spent_by_program
from toolfold.interfaces.pydantic_ai.render import to_model
from toolfold.models import Call, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.policy import Policy
from toolfold.tools.tool import Decision

# The router checks arguments against the tool's schema, and says what is wrong in its own words.
_VALIDATOR: Final = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


class ConfigToolset(AbstractToolset[AgentDepsT]):
    """All tools of a config, called through its router: policy, approval, budgets, retries and timeouts are its own.

    Wrap it in a `CodeModeToolset` for programs. Tools that need approval raise `ApprovalRequired`; tools that the
    policy blocks are not there. A tool is for direct calls, and in a `CodeModeToolset` for programs, unless the config
    says otherwise.

    Args:
        config: The file; unless given, the nearest `toolfold.yaml` from the current folder upwards.
        id: For durable execution.
    """

    def __init__(self, config: str | os.PathLike[str] | Config | None = None, *, id: str | None = None) -> None:
        self._config = resolve_config(config)
        self._id = id
        # Any: the policy among them has its type below.
        options: dict[str, Any] = runtime_options(self._config)
        self._options = {**options, "engine": ScriptedEngine(), "engine_options": None, "approve": _was_approved}
        self._policy: Policy = options["policy"]
        self._open: dict[asyncio.AbstractEventLoop, _Open] = {}

    @property
    def id(self) -> str | None:
        """As it was given."""
        return self._id

    async def __aenter__(self) -> Self:
        opened = self._open.setdefault(asyncio.get_running_loop(), _Open())
        async with opened.lock:
            if opened.runtime is None:
                opened.held = from_config(self._config, **self._options)
                opened.runtime = await opened.held.__aenter__()
            opened.users += 1
        return self

    async def __aexit__(self, *args: object) -> bool | None:
        loop = asyncio.get_running_loop()
        opened = self._open[loop]
        async with opened.lock:
            opened.users -= 1
            if opened.users == 0 and opened.held is not None:
                del self._open[loop]
                await opened.held.__aexit__(None, None, None)
        return None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        opened = self._opened()
        if isinstance(opened.runtime, BridgedRuntime) and not opened.is_settled:
            await opened.runtime.settled(timeout_seconds=CONNECT_SECONDS)
            opened.is_settled = True
        assert opened.runtime is not None
        specs = tuple(opened.runtime.tools)
        if opened.specs != specs:
            opened.specs = specs
            opened.definitions = [_definition(spec) for spec in specs if self._is_offered(spec)]
        in_code = is_listing_for_code()
        return {
            one.name: ToolsetTool(toolset=self, tool_def=one, max_retries=ctx.max_retries, args_validator=_VALIDATOR)
            for one in opened.definitions
            if in_code or (one.metadata or {}).get(MARK) != "code"
        }

    # Any: as Pydantic AI has it.
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        runtime = self._opened().runtime
        assert runtime is not None
        spec = next((one for one in runtime.tools if one.name == name), None)
        if spec is not None and self._policy.asks(spec) and not ctx.tool_call_approved:
            raise ApprovalRequired
        spent = spent_by_program()
        reply = await runtime.call(name, tool_args, spent=spent)
        if reply.error is not None:
            raise ToolFailed(reply.error)
        return to_model(reply.value)

    def _opened(self) -> _Open:
        opened = self._open.get(asyncio.get_running_loop())
        if opened is None:
            raise UserError("the toolset is not entered; run it in an agent, or use `async with toolset:`")
        return opened

    def _is_offered(self, spec: ToolSpec) -> bool:
        """Not our own search: code mode has one, and Pydantic AI another."""
        return spec.source != "toolfold" and self._policy.permits(spec)


@dataclass
class _Open:
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    held: AbstractAsyncContextManager[Runtime] | None = None
    runtime: Runtime | None = None
    is_settled: bool = False
    specs: tuple[ToolSpec, ...] = ()
    definitions: list[ToolDefinition] = field(default_factory=list)


async def _was_approved(_call: Call, _spec: ToolSpec) -> Decision:
    """Pydantic AI has asked already, or the call would not be here."""
    return Decision(approved=True)


def _definition(spec: ToolSpec) -> ToolDefinition:
    hints = {"readOnlyHint": spec.read_only, "idempotentHint": spec.idempotent, "destructiveHint": spec.destructive}
    module = {"domain": spec.domain, "short_name": spec.short_name}
    # `both` is what a config says where it says nothing: then this door's own default counts.
    mark = {} if spec.allowed_callers == "both" else {MARK: spec.allowed_callers}
    return ToolDefinition(
        name=spec.name,
        description=spec.description,
        parameters_json_schema=dict(spec.input_schema),
        return_schema=None if spec.output_schema is None else dict(spec.output_schema),
        metadata={"annotations": hints, FROM_CONFIG: module, **mark},
    )
