"""`ConfigToolset`: the tools of a `toolfold.yaml` for an agent, with the config's names and policy."""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

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
from toolfold.config.build import program_library, runtime_settings
from toolfold.engines.scripted import ScriptedEngine
from toolfold.interfaces.config_runtime import CONNECT_SECONDS, BridgedRuntime, from_config, resolve_config
from toolfold.interfaces.pydantic_ai.allowed_callers import FROM_CONFIG, MARK, listing_for_code
from toolfold.interfaces.pydantic_ai.nested_calls import spent_by_program
from toolfold.interfaces.pydantic_ai.outcome_returns import to_model
from toolfold.models import Call, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.tool import Decision

if TYPE_CHECKING:
    from toolfold.execution.request import SettingsKeywords

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
        self._policy = runtime_settings(self._config).policy
        self._states: dict[asyncio.AbstractEventLoop, _LoopState] = {}

    @property
    def id(self) -> str | None:
        """Id of the toolset, as passed to it."""
        return self._id

    async def __aenter__(self) -> Self:
        state = self._states.setdefault(asyncio.get_running_loop(), _LoopState())
        async with state.lock:
            if state.runtime is None:
                changes: SettingsKeywords = {"approve": _approve}
                if program_library(self._config) is None:  # else one that is called directly needs a sandbox
                    changes |= {"engine": ScriptedEngine(), "engine_options": None}
                state.manager = from_config(self._config, **changes)
                state.runtime = await state.manager.__aenter__()
            state.users += 1
        return self

    async def __aexit__(self, *args: object) -> bool | None:
        loop = asyncio.get_running_loop()
        state = self._states[loop]
        async with state.lock:
            state.users -= 1
            if state.users == 0 and state.manager is not None:
                del self._states[loop]
                await state.manager.__aexit__(None, None, None)
        return None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        state = self._state()
        if isinstance(state.runtime, BridgedRuntime) and not state.is_settled:
            await state.runtime.settled(timeout_seconds=CONNECT_SECONDS)
            state.is_settled = True
        assert state.runtime is not None
        specs = tuple(state.runtime.tools)
        if state.specs != specs:
            state.specs = specs
            # Not our own search: code mode has one, and Pydantic AI another.
            offered = [spec for spec in specs if spec.source != "toolfold" and self._policy.permits(spec)]
            state.definitions = [_definition(spec) for spec in offered]
        return {
            definition.name: ToolsetTool(
                toolset=self, tool_def=definition, max_retries=ctx.max_retries, args_validator=_VALIDATOR
            )
            for definition in state.definitions
            if listing_for_code or (definition.metadata or {}).get(MARK) != "code"
        }

    # Any: as Pydantic AI has it.
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        runtime = self._state().runtime
        assert runtime is not None
        spec = next((candidate for candidate in runtime.tools if candidate.name == name), None)
        if spec is not None and not ctx.tool_call_approved and (self._policy.asks(spec) or self._asks_within(spec)):
            raise ApprovalRequired
        reply = await runtime.call(name, tool_args, spent=spent_by_program())
        if reply.error is not None:
            raise ToolFailed(reply.error)
        return to_model(reply.value)

    def _asks_within(self, spec: ToolSpec) -> bool:
        """Whether it is a saved program, called directly, of which some calls need approval."""
        runtime = self._state().runtime
        if spec.source != "program" or spent_by_program() is not None or runtime is None:
            return False
        tools = runtime.catalog.tools_within(spec.name)
        return any(self._policy.asks(other) for other in runtime.tools if other.name in tools)

    def _state(self) -> _LoopState:
        state = self._states.get(asyncio.get_running_loop())
        if state is None:
            raise UserError("the toolset is not entered; run it in an agent, or use `async with toolset:`")
        return state


@dataclass
class _LoopState:
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    manager: AbstractAsyncContextManager[Runtime] | None = None
    runtime: Runtime | None = None
    is_settled: bool = False
    specs: tuple[ToolSpec, ...] = ()
    definitions: list[ToolDefinition] = field(default_factory=list)


async def _approve(_call: Call, _spec: ToolSpec) -> Decision:
    """Pydantic AI has asked already, or the call would not be here."""
    return Decision(approved=True)


def _definition(spec: ToolSpec) -> ToolDefinition:
    hints = {"readOnlyHint": spec.read_only, "idempotentHint": spec.idempotent, "destructiveHint": spec.destructive}
    module = {"domain": spec.domain, "short_name": spec.short_name, "is_saved_program": spec.source == "program"}
    # `both` is what a config says where it says nothing: then this interface's own default counts.
    mark = {} if spec.allowed_callers == "both" else {MARK: spec.allowed_callers}
    return ToolDefinition(
        name=spec.name, description=spec.description, parameters_json_schema=dict(spec.input_schema),
        return_schema=None if spec.output_schema is None else dict(spec.output_schema),
        metadata={"annotations": hints, FROM_CONFIG: module, **mark},
    )  # fmt: skip
