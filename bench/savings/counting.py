"""Requests, tokens, price and time of each way of doing a task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from bench.savings.replay import MIXED, PROGRAM, PROGRAM_LAST, PROGRAM_UNTYPED, Replayed, Step
from bench.savings.task import Task
from bench.savings.tokens import Count, reply_text
from toolfold.doors.mcp import texts
from toolfold.execution.savings import Conversation, exchange
from toolfold.models import ToolSpec

MAX_SECONDS = 120
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


def counted(task: Task, way: str, replayed: Replayed, count: Count, assumed: Assumed) -> Counted:
    """The figures of what was replayed."""
    start = opening(task, way, count)
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
            conversation.ask(exchange((count(call), count(reply)) for call, reply in step))
        conversation.answer(assumed.answer_tokens)
    return Figures(
        requests=conversation.requests,
        input=conversation.read,
        cached=conversation.cached,
        output=conversation.written,
        context=conversation.context,
    )


def opening(task: Task, way: str, count: Count) -> int:
    """Tokens that every request carries: tool definitions, and what the MCP door says of programs."""
    is_program = way in (PROGRAM, PROGRAM_LAST, PROGRAM_UNTYPED)
    specs = [replace(spec, output_schema=None) for spec in task.specs] if way == PROGRAM_UNTYPED else task.specs
    parts = [] if is_program else [_schemas(specs)]
    if is_program or way == MIXED:
        has_signatures = is_program and not task.finds
        parts += [texts.instructions([]), _entry(specs, has_signatures=has_signatures)]
    if is_program and task.finds:
        parts.append(_search())
    return sum(map(count, parts))


def _schemas(specs: Sequence[ToolSpec]) -> str:
    return reply_text(
        [{"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in specs]
    )


def _entry(specs: Sequence[ToolSpec], *, has_signatures: bool) -> str:
    description, _ = texts.program_description([], len(specs), specs if has_signatures else [])
    schema = texts.program_schema(MAX_SECONDS)
    return reply_text({"name": texts.ENTRY_NAME, "description": description, "input_schema": schema})


def _search() -> str:
    return reply_text(
        {"name": texts.SEARCH_NAME, "description": texts.SEARCH_DESCRIPTION, "input_schema": texts.SEARCH_SCHEMA}
    )
