"""Requests, tokens, price and time of each way of doing a task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.savings import openings
from bench.savings.conversation import Conversation
from bench.savings.replay import MIXED, PROGRAM, PROGRAM_LAST, PROGRAM_UNTYPED, Replayed, Step
from bench.savings.task import Task
from bench.savings.tokens import Count
from toolfold.models import ToolSpec

CACHED_PRICE = 0.1
"""Of an input token that the request before had already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What stands for a model. None of it is measured."""

    answer_tokens: int = 60
    """Written to the user at the end of each turn, in every way the same."""
    output_price: float = 5.0
    """Of an output token, in input tokens."""
    request_seconds: float = 1.0
    """From a request to its first token."""
    token_seconds: float = 0.02
    """For each output token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    requests: int = 0
    input: int = 0
    cached: int = 0
    output: int = 0
    context: int = 0
    """What the model has before it in the end; of several conversations, the largest."""

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            requests=self.requests + other.requests,
            input=self.input + other.input,
            cached=self.cached + other.cached,
            output=self.output + other.output,
            context=max(self.context, other.context),
        )

    @property
    def cached_input(self) -> float:
        """Input with the cached part at a tenth."""
        return self.input - (1 - CACHED_PRICE) * self.cached

    def price(self, assumed: Assumed) -> float:
        """In input tokens."""
        return self.cached_input + assumed.output_price * self.output

    def seconds(self, assumed: Assumed) -> float:
        """Of the model alone."""
        return self.requests * assumed.request_seconds + self.output * assumed.token_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One task in one way."""

    whole: Figures
    """As one conversation over all turns."""
    turns: Sequence[Figures]
    """Each turn as if it were the first."""
    context_saved: int = 0
    """Tokens, as the outcomes of the programs say it."""


def counted(task: Task, replayed: Replayed, start: int, count: Count, assumed: Assumed) -> Counted:
    """The figures of what was replayed, where every request carries `start` tokens of definitions."""
    said = [turn.said for turn in task.turns]
    pairs = list(zip(said, replayed.turns, strict=True))
    return Counted(
        whole=_conversation(start, pairs, count, assumed),
        turns=[_conversation(start, [pair], count, assumed) for pair in pairs],
        context_saved=replayed.context_saved,
    )


def total(figures: Iterable[Figures]) -> Figures:
    return sum(figures, start=Figures())


def _conversation(start: int, turns: Iterable[tuple[str, Sequence[Step]]], count: Count, assumed: Assumed) -> Figures:
    conversation = Conversation(start)
    for words, steps in turns:
        conversation.say(count(words))
        for step in steps:
            conversation.ask((count(call), count(reply)) for call, reply in step)
        conversation.answer(assumed.answer_tokens)
    return Figures(
        requests=conversation.requests,
        input=conversation.read,
        cached=conversation.cached,
        output=conversation.written,
        context=conversation.context,
    )


class Openings:
    """Tokens in every request of a way: definitions, and what the MCP interface says. Each interface is read once."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self._known: dict[tuple[object, ...], int] = {}

    async def of(self, task: Task, way: str) -> int:
        """Of one task in one way."""
        is_program = way in (PROGRAM, PROGRAM_LAST, PROGRAM_UNTYPED)
        specs = [replace(spec, output_schema=None) for spec in task.specs] if way == PROGRAM_UNTYPED else task.specs
        if not is_program:
            direct = self.tokens(openings.direct(specs))
            return direct + (await self._interface((), "contract", is_contract=True) if way == MIXED else 0)
        # Where tools are found by searching, the client is one that shows little.
        return await self._interface(specs, way, max_characters=None if task.finds else openings.SHOWS_ALL)

    def tokens(self, texts: Iterable[str]) -> int:
        """Of several texts."""
        return sum(map(self._count, texts))

    async def _interface(self, specs: Sequence[ToolSpec], way: str, **options: Any) -> int:
        key = (way == PROGRAM_UNTYPED, *sorted(options.items()), *(spec.name for spec in specs))
        if key not in self._known:
            self._known[key] = self.tokens(await openings.mcp(specs, **options))
        return self._known[key]
