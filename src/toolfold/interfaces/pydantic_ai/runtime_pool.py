"""Where the programs of one toolset run: an engine and a ledger, shared by all agent runs that use the toolset.

Copies of a toolset (Pydantic AI makes one per run) have one home. It opens at the first program and
closes when the last run has left, so `async with agent:` keeps the engine warm between runs.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar

from toolfold.engines.base import Engine, EngineSettings, EngineWrapper
from toolfold.engines.registry import chosen_engine
from toolfold.errors import ToolfoldError, UsageError
from toolfold.execution.described_files import DescribedFiles, describe_files
from toolfold.interfaces.prompts import Form
from toolfold.interfaces.pydantic_ai.nested_calls import LongPrograms
from toolfold.interfaces.pydantic_ai.render import run_code_description
from toolfold.ledger.base import Ledger
from toolfold.ledger.memory import MemoryLedger
from toolfold.ledger.open import open_ledger
from toolfold.models import NOTHING_RAN, File, Limits, Outcome, ToolSpec
from toolfold.runtime import Runtime
from toolfold.tools.catalog import Catalog
from toolfold.tools.learning import Learning, Lessons, ToolLessons
from toolfold.tools.router import Wrapper, from_record
from toolfold.tools.tool import Tool

_K = TypeVar("_K")
_T = TypeVar("_T")
_Specs: TypeAlias = tuple[ToolSpec, ...]
_MOST_LISTS: Final = 16
"""For as many different lists of tools the description, the check and the router are kept ready."""
_MOST_FAILED: Final = 1000
_MOST_CONVERSATIONS: Final = 1000
_log: Final = logging.getLogger(__name__)


class _Recent(Generic[_K, _T]):
    """What was made for the lists of tools that were asked for last; specs have no hash, but compare fast."""

    def __init__(self) -> None:
        self._made: list[tuple[_K, _T]] = []

    def get(self, key: _K, make: Callable[[_K], _T]) -> _T:
        for at, (known, made) in enumerate(self._made):
            if known == key:
                self._made.insert(0, self._made.pop(at))
                return made
        # A tool's `prepare` may change its schema in place from step to step: what is kept must not change with it.
        key = copy.deepcopy(key)
        made = make(key)
        self._made.insert(0, (key, made))
        del self._made[_MOST_LISTS:]  # a runtime that runs programs lives on with them
        return made

    def all(self) -> list[_T]:
        return [made for _, made in self._made]


class Home:
    """Opens what programs need, once per event loop, and closes it with the last user.

    Args:
        engine: A name, or an engine of one's own.
        engine_options: Of an engine that is given by name.
        limits: Of each program.
        ledger: A path, `memory`, the address of a server, or a ledger; `None` keeps executions in this object.
        learn: Note what tools that do not declare it return, and tell later conversations.
    """

    def __init__(
        self,
        *,
        engine: str | Engine,
        engine_options: Mapping[str, Any] | None,
        limits: Limits | None,
        ledger: str | PathLike[str] | Ledger | None,
        learn: bool = True,
    ) -> None:
        self._engine = engine
        self._engine_options = engine_options
        self._limits = limits or Limits()
        self._chosen_engine()  # a wrong name or option fails here, not in the middle of a run
        if isinstance(ledger, PathLike):
            ledger = os.fspath(ledger)
        self._ledger: str | Ledger = MemoryLedger() if ledger is None or ledger == "memory" else ledger
        self._open: dict[asyncio.AbstractEventLoop, _Open] = {}
        self._is_learning = learn
        self._descriptions: _Recent[tuple[_Specs, int | None, Form, ToolLessons | None, str], str] = _Recent()
        self._described: DescribedFiles | None = None
        self._known: OrderedDict[str, ToolLessons] = OrderedDict()
        """What was learned before each conversation began."""
        self._failed: dict[str, str] = {}
        """The last execution of each run, where it failed."""
        self.long = LongPrograms()
        """Those that outlasted their run."""

    def description(
        self, specs: tuple[ToolSpec, ...], budget_characters: int | None, form: Form, known: ToolLessons | None = None,
        files: str = "",
    ) -> str:  # fmt: skip
        """Of `run_code`; the same object as long as the tools are the same, because each step asks for it."""
        return self._descriptions.get(
            (specs, budget_characters, form, known, files),
            lambda key: run_code_description(key[0], budget_characters=key[1], form=key[2], known=key[3], files=key[4]),
        )

    async def files_text(self, files: Sequence[File]) -> str:
        """What a model is told of the files that every program has; a guest reads them, once."""
        if not files:
            return ""
        if self._described is None and asyncio.get_running_loop() in self._open:
            opened = await self._opened()
            assert opened.engine is not None
            self._described = await describe_files(opened.engine, files, self._limits)
        return (self._described or DescribedFiles.of(files)).text()

    async def known(self, conversation: str) -> ToolLessons | None:
        """What earlier programs have shown of the tools; it stays the same for a conversation, whose prompt is cached.

        `None` where nothing is known, or the ledger cannot be read.
        """
        opened = self._open.get(asyncio.get_running_loop())
        if not self._is_learning or opened is None:
            return None
        if conversation not in self._known:
            try:
                async with opened.lock:
                    learning = self._learning(opened)
                await learning.read("")
            except (ToolfoldError, OSError) as error:
                _log.warning("earlier programs could not be read: %s", error)
                return None
            self._known[conversation] = learning.snapshot()
            if len(self._known) > _MOST_CONVERSATIONS:
                self._known.popitem(last=False)
        return self._known[conversation]

    def note_end(self, run_id: str, outcome: Outcome) -> None:
        """Remember what failed, so that a corrected program need not do all of it again."""
        if outcome.status == "finished":
            self._failed.pop(run_id, None)
        elif outcome.status not in NOTHING_RAN:
            self._failed[run_id] = outcome.execution_id
            while len(self._failed) > _MOST_FAILED:
                del self._failed[next(iter(self._failed))]

    def failed(self, run_id: str) -> str:
        """The execution that the next program of this run corrects; nothing if the last one did well."""
        return self._failed.get(run_id, "")

    def enter(self) -> None:
        """One more run may want to run programs."""
        loop = asyncio.get_running_loop()
        self._open.setdefault(loop, _Open()).users += 1

    async def leave(self) -> None:
        """A run is over; the last one closes."""
        loop = asyncio.get_running_loop()
        opened = self._open[loop]
        opened.users -= 1
        if opened.users == 0:
            await self.long.close()
            del self._open[loop]
            await opened.close()

    async def waiting(self, key: str) -> str:
        """The execution that was started with this key, if it is paused; else nothing."""
        opened = await self._opened()
        assert opened.ledger is not None
        found = await opened.ledger.list(limit=1, tenant=key)
        return found[0].execution_id if found and found[0].state == "paused" else ""

    async def runtime(self, specs: tuple[ToolSpec, ...], step: Wrapper) -> Runtime:
        """A runtime for exactly these tools, whose calls take this step."""
        opened = await self._opened()
        return opened.runtimes.get(specs, lambda key: self._made(opened, key, step))

    async def _opened(self) -> _Open:
        opened = self._open.get(asyncio.get_running_loop())
        if opened is None:
            raise UsageError("the toolset is not entered; run it in an agent, or use `async with toolset:`")
        async with opened.lock:
            if opened.engine is None:
                await self._unlock(opened)
        return opened

    async def _unlock(self, opened: _Open) -> None:
        engine = self._chosen_engine()
        await engine.__aenter__()
        opened.engine = engine
        self._learning(opened)

    def _learning(self, opened: _Open) -> Learning:
        """Of all runtimes here; opens the ledger."""
        if opened.ledger is None:
            opened.owns_ledger = isinstance(self._ledger, str)
            opened.ledger = open_ledger(self._ledger) if isinstance(self._ledger, str) else self._ledger
        if opened.learning is None:
            store = opened.ledger if isinstance(opened.ledger, Lessons) else None
            # Shared: what is called a tenant here is one program of a conversation.
            opened.learning = Learning(store, is_on=self._is_learning, is_shared=True)
        return opened.learning

    def _chosen_engine(self) -> Engine:
        return chosen_engine(self._engine, self._engine_options, EngineSettings(limits=self._limits))

    def _made(self, opened: _Open, specs: Iterable[ToolSpec], step: Wrapper) -> Runtime:
        assert opened.engine is not None
        return Runtime(
            [Tool(spec=spec, call=_handed_on, prepare=_as_they_came) for spec in specs],
            engine=_Lent(opened.engine),
            limits=self._limits,
            ledger=opened.ledger,
            learn=self._learning(opened),
            steps=(from_record, step),
            entry_name="run_code",
            door="pydantic_ai",
            telemetry=False,  # Pydantic AI traces each call already
            may_ask=True,  # not `Policy(ask=...)`: a handler of the agent may answer on the way, and then the tool runs
        )


@dataclass
class _Open:
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    engine: Engine | None = None
    ledger: Ledger | None = None
    owns_ledger: bool = False
    learning: Learning | None = None
    runtimes: _Recent[_Specs, Runtime] = field(default_factory=_Recent)

    async def close(self) -> None:
        try:
            for runtime in self.runtimes.all():
                await runtime.__aexit__(None, None, None)
        finally:
            try:
                if self.engine is not None:
                    await self.engine.__aexit__(None, None, None)
            finally:
                if self.owns_ledger and self.ledger is not None:
                    await self.ledger.close()


class _Lent(EngineWrapper):
    """An engine that several runtimes use and none of them opens or closes."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Nothing: it was lent."""


def settled(specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
    """The same with the identifiers that programs call them by, no two alike."""
    return Catalog(Tool(spec=spec, call=_handed_on) for spec in specs).specs


# Any: the step before it has called the tool, and this is what it returned.
async def _handed_on(returned: Any) -> Any:
    return returned


# Any: Pydantic AI checks the arguments, with the tool's own validator.
def _as_they_came(arguments: Any) -> Any:
    return arguments
