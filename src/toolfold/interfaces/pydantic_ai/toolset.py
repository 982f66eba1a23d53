"""`CodeModeToolset`: any toolset of Pydantic AI as functions for one program, behind one tool `run_code`."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from typing import Any, Final, NotRequired, Self, Unpack

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import (
    AbstractToolset,
    ApprovalRequired,
    DeferredToolRequests,
    DeferredToolResults,
    FilteredToolset,
    ModelResponse,
    ModelRetry,
    RunContext,
    ToolDefinition,
    ToolsetTool,
    UserError,
    WrapperToolset,
)
from pydantic_ai.tool_manager import ToolManager
from pydantic_ai.tools import AgentDepsT
from typing_extensions import TypedDict

from toolfold.engines.base import Engine
from toolfold.errors import ToolfoldError, UsageError
from toolfold.execution.registry import drive
from toolfold.interfaces.pydantic_ai.allowed_callers import (
    MARK,
    callers_of,
    listing_for_code,
    listing_siblings,
    spec_of,
    with_mark,
)
from toolfold.interfaces.pydantic_ai.nested_calls import (
    NOTE,
    LongProgram,
    NestedAnswers,
    NestedCalls,
    answers_in,
    call_deferral,
)
from toolfold.interfaces.pydantic_ai.outcome_returns import RUN_CODE, RUN_CODE_SCHEMA, to_exception, to_retry, to_return
from toolfold.interfaces.pydantic_ai.runtime_pool import RuntimePool, with_unique_names
from toolfold.interfaces.pydantic_ai.tool_search import SEVERAL, searches_of, toolsets_of
from toolfold.interfaces.tool_prompt import (
    OFFERED_RULE,
    Form,
    language_of,
    small_tools,
    with_language,
    without_offered,
)
from toolfold.ledger.base import Ledger
from toolfold.models import File, Language, Limits, Outcome, Paused, RunNames
from toolfold.runtime import Runtime


class _Arguments(TypedDict):
    code: str
    language: NotRequired[str]


# Any: Pydantic's own type for it is private, and Pydantic AI's protocol is narrower on paper only.
_VALIDATOR: Final[Any] = TypeAdapter(_Arguments).validator


@dataclass(kw_only=True)
class _RunCode(ToolsetTool[AgentDepsT]):
    """The tool `run_code` of one step, with what programs may call in it."""

    tools: dict[str, ToolsetTool[AgentDepsT]]
    siblings: dict[str, ToolsetTool[AgentDepsT]]
    """Those of them that other toolsets of the agent have."""


@dataclass
class CodeModeToolset(WrapperToolset[AgentDepsT]):
    """Wraps a toolset: the model gets `run_code`, and the tools are functions in its programs.

    A tool without a mark may be called by programs only; `allowed_callers='both'` offers it
    directly as well, `'direct'` only directly. Programs also call what other toolsets of the agent
    have marked `code` or `both`.

    Args:
        wrapped: Any toolset: functions, MCP, combined, filtered, prefixed, external.
        engine: `auto`, `process`, `wasm`, `monty`, `ray`, the name of an engine that others register, or an `Engine`.
        engine_options: Options of an engine that is given by name, as those of `Runtime`.
        limits: Of each program.
        ledger: Where programs are kept that wait for an approval: a path or server for other processes to go on;
            `None` keeps them as long as this object lives.
        max_retries: How often the model may correct a program that failed or was refused.
        budget_characters: Of the signatures in the description; what does not fit is found with `search_tools`
            inside a program.
        signatures: How the tools are written in the description: `dense`, one line each, or `python`, as functions
            with docstrings, which takes about three times as many tokens.
        reuse_replies: Whether a program that corrects a failed one gets the replies that the failed one got,
            for the same tools with the same arguments, so that nothing is done twice.
        yield_after_seconds: How long a run of the agent waits for a program; one that takes longer is a deferred call,
            and `wait` waits for it. Without it, a run waits for as long as a program may take.
        on_outcome: Told of every program that ended, with its files and hints.
        learn: Note what tools that do not declare it return (keys and types, never values); descriptions of later
            conversations show it.
        languages: What programs may be written in; with `bash` among them, the model may choose it.
        files: In the working directory of every program. The model is told what is in them: columns and types, sheets,
            rows, as a guest reads it.
        offers_small: Also offer, for direct calls, tools without a mark that only read and have replied little so far.
    """

    engine: str | Engine = "auto"
    limits: Limits | None = None
    ledger: str | PathLike[str] | Ledger | None = None
    max_retries: int = 3
    budget_characters: int | None = None
    reuse_replies: bool = False
    on_outcome: Callable[[Outcome], None] | None = None
    engine_options: Mapping[str, Any] | None = None
    signatures: Form = "dense"
    learn: bool = True
    files: Sequence[File] = ()
    yield_after_seconds: float | None = None
    languages: Collection[Language] = frozenset({"python"})
    offers_small: bool = False
    # A field, so that the copies that Pydantic AI makes for each run share it.
    _pool: RuntimePool | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.yield_after_seconds is not None and not self.yield_after_seconds > 0:
            raise UserError(f"yield_after_seconds must be above 0, got {self.yield_after_seconds!r}")
        if self._pool is None:
            self._pool = RuntimePool(
                engine=self.engine, engine_options=self.engine_options, limits=self.limits, ledger=self.ledger,
                learn=self.learn, languages=frozenset(self.languages),
            )  # fmt: skip

    @property
    def runs_programs(self) -> bool:
        """Marks a code mode for a tool search in the same agent."""
        return True

    @property
    def home(self) -> RuntimePool:
        """Runtime pool, shared by all copies."""
        assert self._pool is not None
        return self._pool

    @property
    def tool_name_conflict_hint(self) -> str:
        return "Wrap one of the toolsets in a `PrefixedToolset`, or put both into one `CodeModeToolset`."

    async def __aenter__(self) -> Self:
        await self.wrapped.__aenter__()
        self.home.enter()
        return self

    async def __aexit__(self, *args: object) -> bool | None:
        try:
            await self.home.leave()
        finally:
            await self.wrapped.__aexit__(*args)
        return None

    def apply(self, visitor: Callable[[AbstractToolset[AgentDepsT]], None]) -> None:
        """Also visits this toolset itself: a tool search asks whether there is one."""
        visitor(self)
        self.wrapped.apply(visitor)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        if listing_siblings:
            return {}
        with listing_for_code():
            tools = await self.wrapped.get_tools(ctx)
        in_code = {name: tool for name, tool in tools.items() if _is_for_code(ctx, tool.tool_def)}
        siblings = {
            name: tool
            for name, tool in (await sibling_tools(ctx, self)).items()
            if name not in tools and _is_for_code(ctx, tool.tool_def)
        }
        in_code |= siblings
        offered = {name: tool for name, tool in tools.items() if _is_offered(ctx, tool.tool_def)}
        if RUN_CODE in tools:
            raise UserError(f"a tool is named {RUN_CODE!r}, which is the name of code mode's own; rename yours")
        specs = with_unique_names(spec_of(tool.tool_def) for tool in in_code.values())
        snapshot = await self.home.learned_snapshot(ctx.conversation_id or ctx.run_id or "")
        small: set[str] = set()
        if self.offers_small:
            unmarked = {
                name for name in tools if name in in_code and not (tools[name].tool_def.metadata or {}).get(MARK)
            }
            candidates = [replace(spec, allowed_callers="both") for spec in specs if spec.name in unmarked]
            small = {spec.name for spec in small_tools(candidates, snapshot)}
            offered |= {name: tools[name] for name in tools if name in small}
            specs = tuple(without_offered(specs, small))
        description = self.home.description(
            specs, self.budget_characters, self.signatures, snapshot, await self.home.files_text(self.files)
        )
        offered[RUN_CODE] = _RunCode(
            toolset=self,
            tool_def=ToolDefinition(
                name=RUN_CODE,
                description=f"{description}\n\n{OFFERED_RULE}" if small else description,
                parameters_json_schema=with_language(RUN_CODE_SCHEMA) if "bash" in self.languages else RUN_CODE_SCHEMA,
                metadata={"code_arg_name": "code", "code_arg_language": "python"},
            ),
            max_retries=self.max_retries,
            args_validator=_VALIDATOR,
            tools=in_code,
            siblings=siblings,
        )
        return offered

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        if not isinstance(tool, _RunCode):
            return await self.wrapped.call_tool(name, tool_args, ctx, tool)
        toolset, tools = await self._all_tools(ctx, tool)
        specs = with_unique_names(spec_of(toolset_tool.tool_def) for toolset_tool in tools.values())
        runtime = await self.home.runtime(specs)
        try:
            tool_args = {**tool_args, "language": language_of(tool_args.get("language"), runtime)}
        except UsageError as error:
            raise ModelRetry(str(error)) from error
        nested = NestedCalls(
            manager=_manager(ctx, toolset, tools), outer_id=ctx.tool_call_id or "", stop=runtime.executions.cancel
        )
        nested.enter()
        nested, outcome = await self._run(runtime, nested, ctx, tool_args)
        self.home.note_end(ctx.run_id or "", outcome)
        if self.on_outcome is not None:
            self.on_outcome(outcome)
        if nested.failure is not None:
            raise nested.failure
        if outcome.status != "finished":
            raise to_retry(outcome, _visible_names(ctx))
        content = [item for _, items in sorted(nested.content.items()) for item in items]
        notes = {SEVERAL: nested.search_notes} if nested.search_notes else {}
        return to_return(outcome, content, notes=notes, revealed=nested.revealed)

    async def wait(
        self, requests: DeferredToolRequests, *, timeout_seconds: float | None = None
    ) -> DeferredToolResults:
        """Wait for programs that outlasted their run to end, or to need an answer.

        Give what it returns to the agent's next run, with the history of the last one: `run_code` has its result
        there, or is deferred again. Programs go on while the agent or the toolset is entered.
        """
        return await self.home.long_programs.wait(requests, timeout_seconds)

    async def _run(
        self, runtime: Runtime, nested: NestedCalls, ctx: RunContext[AgentDepsT], tool_args: dict[str, Any]
    ) -> tuple[NestedCalls, Outcome]:
        """Run the program to its end, with its calls; `CallDeferred` if it outlasts the wait of the agent's run."""
        key = f"{ctx.conversation_id}/{ctx.tool_call_id}"
        try:
            nested.answers = await self._answers(ctx, key)
        except ToolfoldError as error:
            raise to_exception(error, had_paused=False) from error
        execution_id = nested.answers.execution_id or secrets.token_hex(8)
        program = self.home.long_programs.get(execution_id)
        if program is None and self.yield_after_seconds is None:
            return nested, await self._drive(runtime, nested, ctx, tool_args, key, execution_id)
        if program is None:
            work = asyncio.create_task(self._drive(runtime, nested, ctx, tool_args, key, execution_id))
            program = LongProgram(nested, work, partial(runtime.executions.suspend, execution_id))
        has_yielded = execution_id in self.home.long_programs
        try:
            await asyncio.wait([program.work], timeout=self.yield_after_seconds)
        except asyncio.CancelledError:
            if not has_yielded:  # else only the wait for it is cancelled
                program.work.cancel()
                await asyncio.wait([program.work])
            raise
        if not program.work.done():
            self.home.long_programs[execution_id] = program
            raise call_deferral(execution_id, runtime.executions.open_calls(execution_id))
        self.home.long_programs.pop(execution_id, None)
        return program.nested, program.work.result()

    async def _drive(
        self, runtime: Runtime, nested: NestedCalls, ctx: RunContext[AgentDepsT], tool_args: dict[str, Any],
        key: str, execution_id: str,
    ) -> Outcome:  # fmt: skip
        """Run the program to its end; `ApprovalRequired`, with a note in its metadata, if it waits for an answer."""
        try:
            if nested.answers.execution_id:
                record = await runtime.executions.recorded(execution_id)
                if record is not None and record.outcome is not None and not nested.answers.results:
                    return record.outcome  # it came to its end when no run waited for it
                step = await runtime.resume(execution_id)
                nested.limit_answers(step.approvals if isinstance(step, Paused) else ())
            else:
                rerun_of = self.home.failed_execution(ctx.run_id or "") if self.reuse_replies else ""
                step = await runtime.start(
                    tool_args["code"], files=self.files, tenant=key, rerun_of=rerun_of, execution_id=execution_id,
                    durable=self.yield_after_seconds is not None,
                    language=tool_args["language"], **_names(ctx),
                )  # fmt: skip
            step = await drive(runtime, step, nested.answer)
            if isinstance(step, Paused):
                await runtime.executions.release(step.execution_id)
                calls = [nested.waiting_for(call) for call in step.approvals]
                raise ApprovalRequired({NOTE: {"execution_id": step.execution_id, "calls": calls}})
            return step
        except ToolfoldError as error:
            raise to_exception(error, had_paused=bool(nested.answers.execution_id)) from error

    async def _answers(self, ctx: RunContext[AgentDepsT], key: str) -> NestedAnswers:
        answers = answers_in(ctx.tool_call_metadata)
        if answers is not None:
            return answers
        may_wait = ctx.tool_call_approved or _is_of_an_earlier_run(ctx)
        execution_id = await self.home.paused_execution(key) if may_wait else ""
        return NestedAnswers(execution_id=execution_id, is_yes_to_all=ctx.tool_call_approved)

    async def _all_tools(
        self, ctx: RunContext[AgentDepsT], tool: _RunCode[AgentDepsT]
    ) -> tuple[AbstractToolset[AgentDepsT], dict[str, ToolsetTool[AgentDepsT]]]:
        """The wrapped tools, those beside them, and those that a tool search of the same agent has found."""
        root = root_of(ctx)
        routes: dict[str, AbstractToolset[AgentDepsT]] = {} if root is None else dict.fromkeys(tool.siblings, root)
        tools = dict(tool.tools)
        for search in searches_of(ctx):
            for name, found_tool in (await search.found_for_code(ctx)).items():
                if name not in tools:
                    tools[name], routes[name] = found_tool, search
        return _RoutingToolset(self.wrapped, routes) if routes else self.wrapped, tools


@dataclass
class _RoutingToolset(WrapperToolset[AgentDepsT]):
    routes: dict[str, AbstractToolset[AgentDepsT]]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        return await self.routes.get(name, self.wrapped).call_tool(name, tool_args, ctx, tool)


# Any: the names of a run, as keywords of `start`.
def _names(ctx: RunContext[AgentDepsT]) -> dict[str, Any]:
    """Names of the agent's run: its conversation and model, and the title, tags and user in its metadata."""
    model = getattr(ctx.model, "model_name", "")
    names = {"conversation": ctx.conversation_id or "", "model": model if isinstance(model, str) else ""}
    return msgspec.structs.asdict(RunNames.within({**names, **(ctx.metadata or {})}))


def _manager(
    ctx: RunContext[AgentDepsT], toolset: AbstractToolset[AgentDepsT], tools: dict[str, ToolsetTool[AgentDepsT]]
) -> ToolManager[AgentDepsT]:
    """The path of a direct call, for tools that the model does not see: same hooks, same context."""
    outer = ctx.tool_manager
    if outer is None:
        raise UserError("`run_code` needs the tool manager of an agent's run; call it through an agent")
    return ToolManager(
        toolset=toolset, root_capability=outer.root_capability, ctx=ctx, tools=tools,
        default_max_retries=outer.default_max_retries,
    )  # fmt: skip


# Any: dependencies do not matter here.
def _visible_names(ctx: RunContext[Any]) -> list[str]:
    tools = ctx.tool_manager.tools if ctx.tool_manager is not None else None
    return [name for name in tools or {} if name != RUN_CODE]


def _is_of_an_earlier_run(ctx: RunContext[Any]) -> bool:
    response = next((message for message in reversed(ctx.messages) if isinstance(message, ModelResponse)), None)
    return response is not None and response.run_id != ctx.run_id


def _is_for_code(ctx: RunContext[Any], definition: ToolDefinition) -> bool:
    return callers_of(definition, unset="code") != "direct" and ctx.is_tool_available(definition)


def _is_offered(ctx: RunContext[Any], definition: ToolDefinition) -> bool:
    # What Pydantic AI's own search has not revealed yet is left to it.
    return callers_of(definition, unset="code") != "code" or not ctx.is_tool_available(definition)


# ----------------------------------------------------------------------------------------------------
# Tools that stand beside a code mode in one agent, as far as their marks make them tools of its programs.


async def sibling_tools(
    ctx: RunContext[AgentDepsT], own: AbstractToolset[AgentDepsT]
) -> dict[str, ToolsetTool[AgentDepsT]]:
    """Tools marked `code` or `both` in other toolsets of the agent; `UserError` if the model sees one marked `code`."""
    root = root_of(ctx)
    if root is None or not _has_siblings(ctx, own):
        return {}
    with listing_siblings():
        visible_tools = await root.get_tools(ctx)
        with listing_for_code():
            tools = await root.get_tools(ctx)
    for name, tool in visible_tools.items():
        if callers_of(tool.tool_def) == "code":
            raise UserError(
                f"{name!r} is marked allowed_callers='code', but its toolset shows it to the model; "
                "put that toolset into the CodeModeToolset, or use toolfold.pydantic_ai.FunctionToolset"
            )
    return {name: tool for name, tool in tools.items() if callers_of(tool.tool_def) != "direct"}


def root_of(ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT] | None:
    return None if ctx.tool_manager is None else ctx.tool_manager.toolset


def _has_siblings(ctx: RunContext[AgentDepsT], own: AbstractToolset[AgentDepsT]) -> bool:
    """Whether there is anything to list: each step would pay for it."""
    own_ids = set[int]()
    own.apply(lambda toolset: own_ids.add(id(toolset)))
    # An agent always has a toolset for its own functions, mostly an empty one.
    return any(id(toolset) not in own_ids and getattr(toolset, "tools", True) for toolset in toolsets_of(ctx))


# ----------------------------------------------------------------------------------------------------
# One toolset as two: what the model calls directly, and what its programs call. No tool is offered twice one way.


class CodeModeOptions(TypedDict, total=False):
    """The options of `CodeModeToolset`, which says what each means."""

    engine: str | Engine
    # Any: each engine has options of its own.
    engine_options: Mapping[str, Any] | None
    limits: Limits | None
    ledger: str | PathLike[str] | Ledger | None
    max_retries: int
    budget_characters: int | None
    reuse_replies: bool
    on_outcome: Callable[[Outcome], None] | None
    signatures: Form
    learn: bool
    files: Sequence[File]
    yield_after_seconds: float | None
    languages: Collection[Language]
    offers_small: bool


def split_by_caller(
    toolset: AbstractToolset[AgentDepsT], **options: Unpack[CodeModeOptions]
) -> tuple[AbstractToolset[AgentDepsT], CodeModeToolset[AgentDepsT]]:
    """The tools for direct calls and those for programs, for `Agent(toolsets=split_by_caller(toolset))`.

    A tool marked `both` is in both; one without a mark is for direct calls. `options` are those of
    `CodeModeToolset`.
    """
    direct = FilteredToolset(toolset, lambda _, definition: callers_of(definition) != "code")
    return direct, CodeModeToolset(_CodeMarkedToolset(toolset), **options)


class _CodeMarkedToolset(WrapperToolset[AgentDepsT]):
    """Tools for programs as such: `both` would offer them directly a second time."""

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        with listing_for_code():
            tools = await self.wrapped.get_tools(ctx)
        return {name: with_mark(tool, "code") for name, tool in tools.items() if callers_of(tool.tool_def) != "direct"}
