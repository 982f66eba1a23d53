"""`ToolSearchToolset`: tools that the model does not see before it has looked for them.

The model always sees one tool, `search_tools`; signatures of what it finds come back in the answer.
What was found is read from the message history, so it outlives the run and the process, and the list
of tools in a request does not change by finding tools for programs: the prompt's prefix stays as it was.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pydantic import TypeAdapter
from pydantic_ai import (
    AbstractToolset,
    RunContext,
    Tool,
    ToolDefinition,
    ToolReturn,
    ToolsetTool,
    UserError,
    WrapperToolset,
)
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart
from pydantic_ai.tools import AgentDepsT
from typing_extensions import TypedDict

from toolfold.interfaces.pydantic_ai.allowed_callers import (
    MARK,
    MARK_ON_FUNCTION,
    FunctionToolset,
    callers_of,
    listing_for_code,
    spec_of,
    with_mark,
)
from toolfold.interfaces.pydantic_ai.outcome_returns import (
    DIRECTLY,
    IN_CODE,
    SEARCH,
    SEARCH_DESCRIPTION,
    SEARCH_NOTE,
    SEARCH_SCHEMA,
)
from toolfold.interfaces.pydantic_ai.runtime_pool import with_unique_names
from toolfold.interfaces.tool_prompt import tools_text
from toolfold.models import AllowedCallers, ToolSpec
from toolfold.prompts.python_stubs import first_line
from toolfold.tools.search import DEFAULT_LIMIT, Embedder, Index

# Any: tools may be functions of any signature, with dependencies of any type.
SearchResult: TypeAlias = str | Tool[Any] | ToolDefinition | Callable[..., Any]
"""A tool that a search gives: its name, or itself."""
SearchFunction: TypeAlias = Callable[[str], Sequence[SearchResult] | Awaitable[Sequence[SearchResult]]]

SEVERAL: Final = "toolfold_found_by_program"
"""The key in the metadata of `run_code`, where a program searched."""


class _Arguments(TypedDict):
    query: str


# Any: Pydantic's own type for it is private, and Pydantic AI's protocol is narrower on paper only.
_VALIDATOR: Final[Any] = TypeAdapter(_Arguments).validator


@dataclass(kw_only=True)
class _Search(ToolsetTool[AgentDepsT]):
    """The tool `search_tools`, with what it looks through."""

    tools: dict[str, ToolsetTool[AgentDepsT]]
    unset: AllowedCallers
    """What a tool without a mark means here."""


@dataclass
class _SearchState:
    # Any: dependencies of any type.
    toolset: FunctionToolset[Any] = field(default_factory=FunctionToolset)
    """Tools that the search function gave as themselves."""
    specs: tuple[ToolSpec, ...] = ()
    index: Index | None = None


@dataclass
class ToolSearchToolset(WrapperToolset[AgentDepsT]):
    """Hides tools behind a search.

    Tools marked `code` or `both` can be called by programs of a `CodeModeToolset` in the same agent, around
    this toolset or beside it, once they are found. Others are offered directly from the next request on.

    Args:
        wrapped: The tools; none are needed if the search function gives tools itself.
        search_fn: Takes the query, gives names or tools, best first; may be async. By default words in names,
            descriptions and arguments count.
        max_results: How many tools one search gives at most.
        embedder: Texts in, vectors out: the usual search then goes by meaning, too.
    """

    wrapped: AbstractToolset[AgentDepsT] = field(default_factory=FunctionToolset)
    search_fn: SearchFunction | None = None
    max_results: int = DEFAULT_LIMIT
    embedder: Embedder | None = None
    # A field, so that the copies that Pydantic AI makes for each run share it.
    _memory: _SearchState = field(default_factory=_SearchState, repr=False, compare=False)

    def apply(self, visitor: Callable[[AbstractToolset[AgentDepsT]], None]) -> None:
        """Also visits this toolset itself: code mode asks what was found."""
        visitor(self)
        self.wrapped.apply(visitor)

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        unset: AllowedCallers = "code" if listing_for_code else "direct"
        tools = await self._hidden_tools(ctx)
        if SEARCH in tools:
            raise UserError(f"a tool is named {SEARCH!r}, which is the name of the search itself; rename yours")
        search = _Search(
            toolset=self,
            tool_def=ToolDefinition(
                name=SEARCH, description=SEARCH_DESCRIPTION, parameters_json_schema=SEARCH_SCHEMA,
                metadata={MARK: "both"},
            ),
            max_retries=ctx.max_retries,
            args_validator=_VALIDATOR,
            tools=tools,
            unset=unset,
        )  # fmt: skip
        direct = [name for name in _noted_names(ctx.messages, "direct") if name in tools]
        # A code mode around this toolset must not take them for its programs.
        return {SEARCH: search, **{name: with_mark(tools[name], "direct") for name in direct}}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> Any:
        if isinstance(tool, _Search):
            return await self._answer(tool_args["query"], ctx, tool)
        toolset = self._memory.toolset
        return await (toolset if name in toolset.tools else self.wrapped).call_tool(name, tool_args, ctx, tool)

    async def found_for_code(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """The tools that programs may call because the model has found them."""
        names = _noted_names(ctx.messages, "code")
        tools = await self._hidden_tools(ctx) if names else {}
        return {name: tools[name] for name in names if name in tools}

    async def _hidden_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        with listing_for_code():
            tools = await self.wrapped.get_tools(ctx)
            known_names = {*tools, *self._memory.toolset.tools}
            if self.search_fn is not None:
                # Found in another process, and given by the search function as itself: ask it again.
                for query in _queries(ctx.messages, known_names):
                    await self._search_names(query, known_names)
            return {**tools, **await self._memory.toolset.get_tools(ctx)}

    async def _answer(self, query: str, ctx: RunContext[AgentDepsT], search: _Search[AgentDepsT]) -> ToolReturn[str]:
        names = (
            await self._search_names(query, search.tools) if self.search_fn else await self._hits(query, search.tools)
        )
        with listing_for_code():
            tools = {**search.tools, **await self._memory.toolset.get_tools(ctx)}
        has_code_mode = search.unset == "code" or any(hasattr(member, "runs_programs") for member in toolsets_of(ctx))
        ways: dict[str, list[ToolDefinition]] = {"code": [], "direct": []}
        for name in dict.fromkeys(names):
            definition = tools[name].tool_def
            callers = callers_of(definition, unset=search.unset)
            if callers == "both":
                # To programs alone, so that the list of tools stays as it is.
                callers = "code" if has_code_mode else "direct"
            if callers == "direct" or has_code_mode:
                ways[callers].append(definition)
        names_by_way = {way: [member.name for member in members[: self.max_results]] for way, members in ways.items()}
        text = _describe(ways["code"][: self.max_results], ways["direct"][: self.max_results])
        return ToolReturn(return_value=text, metadata={SEARCH_NOTE: {"query": query, **names_by_way}})

    async def _hits(self, query: str, tools: dict[str, ToolsetTool[AgentDepsT]]) -> list[str]:
        specs = tuple(spec_of(tool.tool_def) for tool in tools.values())
        memory = self._memory
        if memory.index is None:
            memory.index = Index((), embedder=self.embedder)
        if specs != memory.specs:
            memory.specs, memory.index = specs, memory.index.updated(specs)
        return [hit.spec.name for hit in await memory.index.search_aside(query, self.max_results)]

    async def _search_names(self, query: str, known_names: Container[str]) -> list[str]:
        """Ask the search function; tools that it gives as themselves are kept from now on."""
        assert self.search_fn is not None
        answer = self.search_fn(query)
        results = await answer if inspect.isawaitable(answer) else answer
        return [self._name_of(result, known_names) for result in results]

    def _name_of(self, result: SearchResult, known_names: Container[str]) -> str:
        toolset = self._memory.toolset
        name = (
            result
            if isinstance(result, str)
            else str(getattr(result, "name", None) or getattr(result, "__name__", result))
        )
        if name in known_names or name in toolset.tools:
            return name
        if isinstance(result, Tool):
            toolset.add_tool(result)
        elif callable(result):
            toolset.add_function(result, allowed_callers=getattr(result, MARK_ON_FUNCTION, None))
        else:
            raise UserError(f"the search function gave {name!r}, and no tool has that name; give the tool itself")
        return name


# Any: dependencies do not matter here.
def toolsets_of(ctx: RunContext[Any]) -> list[AbstractToolset[Any]]:
    """The toolsets of the agent's run, as far as they let themselves be visited."""
    toolsets: list[AbstractToolset[Any]] = []
    if ctx.tool_manager is not None:
        ctx.tool_manager.toolset.apply(toolsets.append)
    return toolsets


def searches_of(ctx: RunContext[Any]) -> list[ToolSearchToolset[Any]]:
    return [toolset for toolset in toolsets_of(ctx) if isinstance(toolset, ToolSearchToolset)]


def _notes(messages: Iterable[ModelMessage]) -> Iterator[dict[str, Any]]:
    for message in messages:
        for part in message.parts if isinstance(message, ModelRequest) else ():
            if isinstance(part, ToolReturnPart) and isinstance(part.metadata, dict):
                yield from part.metadata.get(SEVERAL, [])
                if SEARCH_NOTE in part.metadata:
                    yield part.metadata[SEARCH_NOTE]


def _noted_names(messages: Iterable[ModelMessage], way: str) -> list[str]:
    return list(dict.fromkeys(name for note in _notes(messages) for name in note[way]))


def _queries(messages: Iterable[ModelMessage], known_names: Container[str]) -> list[str]:
    """Earlier queries that found tools which are not known here."""
    return [
        note["query"]
        for note in _notes(messages)
        if any(name not in known_names for name in (*note["code"], *note["direct"]))
    ]


def _describe(in_code: Sequence[ToolDefinition], direct: Sequence[ToolDefinition]) -> str:
    parts = []
    if in_code:
        parts.append(f"{IN_CODE}. {tools_text(with_unique_names(spec_of(definition) for definition in in_code))}")
    if direct:
        # Their schemas are in the list of tools from the next request on.
        lines = [f"- {definition.name}: {first_line(spec_of(definition))}" for definition in direct]
        parts.append("\n".join([f"{DIRECTLY}:", *lines]))
    return "\n\n".join(parts) or "nothing was found; search with other words"
