"""Runtime pool of one toolset: an engine and a ledger, shared by all agent runs that use the toolset.

Copies of a toolset (Pydantic AI makes one per run) share one pool. It opens at the first program and
closes when the last run has left, so `async with agent:` keeps the engine warm between runs.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from toolfold.engines.base import Engine, EngineSettings, EngineWrapper
from toolfold.engines.registry import chosen_engine
from toolfold.errors import ToolfoldError, UsageError
from toolfold.execution.described_files import DescribedFiles, describe_files
from toolfold.interfaces.pydantic_ai.nested_calls import LongPrograms, through_pydantic_ai
from toolfold.interfaces.pydantic_ai.outcome_returns import run_code_description
from toolfold.interfaces.tool_prompt import Form
from toolfold.ledger.base import Ledger
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.models import NOTHING_RAN, File, Language, Limits, Outcome, ToolSpec
from toolfold.runtime import Runtime, RuntimeSettings
from toolfold.service.answer_memory import BoundedMemory
from toolfold.tools.catalog import Catalog
from toolfold.tools.learned_replies import Learning, Lessons, ToolLessons
from toolfold.tools.router import from_record
from toolfold.tools.tool import Tool

_K = TypeVar("_K")
_T = TypeVar("_T")
_Specs: TypeAlias = tuple[ToolSpec, ...]
_MOST_LISTS: Final = 16
"""For as many different lists of tools the description, the check and the router are kept ready."""
_MOST_FAILED: Final = 1000
_MOST_CONVERSATIONS: Final = 1000
_log: Final = logging.getLogger(__name__)


class _RecentCache(Generic[_K, _T]):
    """Values for the keys that were used last; specs have no hash, but compare fast."""

    def __init__(self) -> None:
        self._entries: list[tuple[_K, _T]] = []

    def get(self, key: _K, make: Callable[[_K], _T]) -> _T:
        for index, (cached_key, value) in enumerate(self._entries):
            if cached_key == key:
                self._entries.insert(0, self._entries.pop(index))
                return value
        # A tool's `prepare` may change its schema in place from step to step: what is kept must not change with it.
        key = copy.deepcopy(key)
        value = make(key)
        self._entries.insert(0, (key, value))
        del self._entries[_MOST_LISTS:]  # a runtime that runs programs lives on with them
        return value

    def values(self) -> list[_T]:
        return [value for _, value in self._entries]


class RuntimePool:
    """Opens what programs need once per event loop, and closes it with the last user; see `CodeModeToolset`."""

    def __init__(
        self, *, engine: str | Engine, engine_options: Mapping[str, Any] | None, limits: Limits | None,
        ledger: str | PathLike[str] | Ledger | None, learn: bool = True,
        languages: frozenset[Language] = frozenset({"python"}),
    ) -> None:  # fmt: skip
        self._engine = engine
        self._engine_options = engine_options
        self._limits = limits or Limits()
        chosen = self._chosen_engine()  # a wrong name or option fails here, not in the middle of a run
        if missing := languages - chosen.capabilities.languages:
            raise UsageError(f"the engine {chosen.name!r} runs no {' or '.join(missing)} programs here")
        self._languages = languages
        if isinstance(ledger, PathLike):
            ledger = os.fspath(ledger)
        self._ledger: str | Ledger = MemoryLedger() if ledger is None or ledger == "memory" else ledger
        self._states: dict[asyncio.AbstractEventLoop, _LoopState] = {}
        self._is_learning = learn
        self._descriptions: _RecentCache[tuple[_Specs, int | None, Form, ToolLessons | None, str], str] = _RecentCache()
        self._described_files: DescribedFiles | None = None
        self._snapshots: BoundedMemory[str, ToolLessons] = BoundedMemory(_MOST_CONVERSATIONS)
        """What was learned before each conversation began."""
        self._failed_executions: BoundedMemory[str, str] = BoundedMemory(_MOST_FAILED)
        """The last execution of each run, where it failed."""
        self.long_programs = LongPrograms()

    def description(
        self, specs: tuple[ToolSpec, ...], budget_characters: int | None, form: Form,
        snapshot: ToolLessons | None = None, files: str = "",
    ) -> str:  # fmt: skip
        """Description of `run_code`; the same object while the tools do not change, because each step asks for it."""
        key = (specs, budget_characters, form, snapshot, files)
        return self._descriptions.get(key, lambda key: run_code_description(*key, has_bash="bash" in self._languages))

    async def files_text(self, files: Sequence[File]) -> str:
        """Description of the files that every program has; a guest reads them once."""
        if not files:
            return ""
        if self._described_files is None and asyncio.get_running_loop() in self._states:
            state = await self._ready_state()
            assert state.engine is not None
            self._described_files = await describe_files(state.engine, files, self._limits)
        return (self._described_files or DescribedFiles.of(files)).text()

    async def learned_snapshot(self, conversation: str) -> ToolLessons | None:
        """Lessons from before the conversation, so that its prompt stays cached; `None` if none can be read."""
        state = self._states.get(asyncio.get_running_loop())
        if not self._is_learning or state is None:
            return None
        snapshot = self._snapshots.get(conversation)
        if snapshot is None:
            try:
                async with state.lock:
                    learning = self._learning(state)
                await learning.read("")
            except (ToolfoldError, OSError) as error:
                _log.warning("earlier programs could not be read: %s", error)
                return None
            snapshot = learning.snapshot()
            self._snapshots.put(conversation, snapshot)
        return snapshot

    def note_end(self, run_id: str, outcome: Outcome) -> None:
        """Remember what failed, so that a corrected program need not do all of it again."""
        if outcome.status == "finished":
            self._failed_executions.pop(run_id)
        elif outcome.status not in NOTHING_RAN:
            self._failed_executions.put(run_id, outcome.execution_id)

    def failed_execution(self, run_id: str) -> str:
        """Execution that the next program of this run corrects; empty if the last one finished."""
        return self._failed_executions.get(run_id) or ""

    def enter(self) -> None:
        loop = asyncio.get_running_loop()
        self._states.setdefault(loop, _LoopState()).users += 1

    async def leave(self) -> None:
        """End a run; the last one closes the engine and the ledger."""
        loop = asyncio.get_running_loop()
        state = self._states[loop]
        state.users -= 1
        if state.users == 0:
            await self.long_programs.close()
            del self._states[loop]
            async with state.exits:
                for runtime in state.runtimes.values():
                    await runtime.__aexit__(None, None, None)

    async def paused_execution(self, key: str) -> str:
        """Paused execution that was started with this key; empty if there is none."""
        state = await self._ready_state()
        assert state.ledger is not None
        summaries = await state.ledger.list(limit=1, tenant=key)
        return summaries[0].execution_id if summaries and summaries[0].state == "paused" else ""

    async def runtime(self, specs: tuple[ToolSpec, ...]) -> Runtime:
        """A runtime for exactly these tools."""
        state = await self._ready_state()
        return state.runtimes.get(specs, lambda key: self._build_runtime(state, key))

    async def _ready_state(self) -> _LoopState:
        state = self._states.get(asyncio.get_running_loop())
        if state is None:
            raise UsageError("the toolset is not entered; run it in an agent, or use `async with toolset:`")
        async with state.lock:
            if state.engine is None:
                self._learning(state)
                state.engine = await state.exits.enter_async_context(self._chosen_engine())
        return state

    def _learning(self, state: _LoopState) -> Learning:
        """Learning shared by all runtimes; opens the ledger."""
        if state.ledger is None:
            if isinstance(self._ledger, str):
                state.ledger = open_ledger(self._ledger)
                state.exits.push_async_callback(state.ledger.close)
            else:
                state.ledger = self._ledger
        if state.learning is None:
            store = state.ledger if isinstance(state.ledger, Lessons) else None
            # Shared: what is called a tenant here is one program of a conversation.
            state.learning = Learning(store, is_on=self._is_learning, is_shared=True)
        return state.learning

    def _chosen_engine(self) -> Engine:
        return chosen_engine(self._engine, self._engine_options, EngineSettings(limits=self._limits))

    def _build_runtime(self, state: _LoopState, specs: Iterable[ToolSpec]) -> Runtime:
        assert state.engine is not None
        settings = RuntimeSettings(
            engine=_SharedEngine(state.engine),
            limits=self._limits,
            ledger=state.ledger,
            learn=self._learning(state),
            steps=(from_record, through_pydantic_ai),
            entry_name="run_code",
            interface="pydantic_ai",
            telemetry=False,  # Pydantic AI traces each call already
            languages=self._languages,
            may_ask=True,  # not `Policy(ask=...)`: a handler of the agent may answer on the way, and then the tool runs
        )
        # Pydantic AI checks the arguments, with the tool's own validator.
        tools = [Tool(spec=spec, call=_return_reply, prepare=lambda arguments: arguments) for spec in specs]
        return Runtime(tools, settings=settings)


@dataclass
class _LoopState:
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    engine: Engine | None = None
    ledger: Ledger | None = None
    learning: Learning | None = None
    runtimes: _RecentCache[_Specs, Runtime] = field(default_factory=_RecentCache)
    exits: AsyncExitStack = field(default_factory=AsyncExitStack)
    """Closes the engine, then a ledger of our own."""


class _SharedEngine(EngineWrapper):
    """An engine that several runtimes use and none of them opens or closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing: it was lent."""


def with_unique_names(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    return Catalog(Tool(spec=spec, call=_return_reply) for spec in specs).specs


# Any: the step before it has called the tool, and this is what it returned.
async def _return_reply(returned: Any) -> Any:
    return returned
