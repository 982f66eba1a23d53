"""Summaries of executions for listings and statistics, and changes of one execution as they are written."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from toolfold.errors import UsageError
from toolfold.ledger.base import ExecutionFilter, ExecutionSummary, Ledger, Story
from toolfold.models import CallRecord, Outcome, RunNames

# ----------------------------------------------------------------------------------------------------
# Calls of an ended execution as a listing shows them: lanes, counts, uses of tools. Pure.

WIDTH: Final = 1000
"""Of the drawing: bars are given in thousandths of the whole duration."""
_MOST_BARS: Final = 48
_MOST_LANES: Final = 5
_SAMPLED: Final = 16


class ToolUse(msgspec.Struct, frozen=True, array_like=True):
    """Use of one tool by one execution."""

    tool: str
    calls: int
    failed: int
    bytes_out: int
    seconds: tuple[float, ...]
    """Durations of some of its calls, spread evenly over them."""
    error: str = ""
    """The last one."""
    breaker: str = ""
    """What the tool's breaker did last: `opened`, `open` or `closed`; empty where it did nothing."""


def lanes_of(outcome: Outcome) -> tuple[tuple[int, int, int, int], ...]:
    """Bars of a tiny drawing: start, width, lane, and 1 for a call that failed; evenly picked if there are many."""
    calls = sorted(outcome.calls, key=lambda call: call.started_seconds)
    if not calls:
        return ()
    last = max(call.started_seconds + call.seconds for call in calls)
    whole = max(outcome.seconds, last, 1e-9)
    step = -(-len(calls) // _MOST_BARS)  # rounded up, so that the last ones are there, too
    free: list[float] = []
    bars = []
    for call in calls[::step]:
        end = call.started_seconds + call.seconds
        lane = next((lane for lane, until in enumerate(free) if until <= call.started_seconds), len(free))
        if lane < len(free):
            free[lane] = end
        elif lane < _MOST_LANES:
            free.append(end)
        else:
            lane = _MOST_LANES - 1
        start = min(WIDTH - 1, int(call.started_seconds / whole * WIDTH))
        width = max(1, min(WIDTH - start, int(call.seconds / whole * WIDTH)))
        bars.append((max(0, start), width, lane, int(call.error is not None)))
    return tuple(bars)


def uses_of(calls: Sequence[CallRecord]) -> list[ToolUse]:
    """By tool, in the order of their first call; what came from a record was no use."""
    by_tool: dict[str, list[CallRecord]] = {}
    for call in calls:
        if not call.from_record:
            by_tool.setdefault(call.name, []).append(call)
    return [_use(tool, tool_calls) for tool, tool_calls in by_tool.items()]


def _use(tool: str, calls: list[CallRecord]) -> ToolUse:
    errors = [call.error for call in calls if call.error is not None]
    return ToolUse(
        tool=tool, calls=len(calls), failed=len(errors), bytes_out=sum(call.bytes_out for call in calls),
        seconds=tuple(round(call.seconds, 6) for call in calls[:: -(-len(calls) // _SAMPLED)]),
        error=errors[-1][:300] if errors else "",
        breaker=next((call.breaker for call in reversed(calls) if call.breaker), ""),
    )  # fmt: skip


Row: TypeAlias = tuple[ExecutionSummary, tuple[ToolUse, ...]]
Saving: TypeAlias = tuple[float, str, int, int, int]


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """Facts stored beside the row of an ended execution."""

    failed: int
    saved_bytes: int
    lanes: tuple[tuple[int, int, int, int], ...]
    uses: tuple[ToolUse, ...]


class Statistics(Protocol):
    """Statistics that a console reads; every ledger of ours has them."""

    async def counts(self, since: float, tenant: str | None = None) -> dict[str, int]: ...
    async def savings(self, since: float, bucket: float, tenant: str | None = None) -> Sequence[Saving]: ...
    async def uses(self, limit: int, tenant: str | None = None) -> Sequence[tuple[float, ToolUse]]: ...


encode_facts: Final = msgspec.msgpack.Encoder().encode
decode_facts: Final = msgspec.msgpack.Decoder(Facts).decode


def facts_of(outcome: Outcome) -> Facts:
    return Facts(
        failed=sum(call.error is not None for call in outcome.calls), saved_bytes=outcome.context_saved.bytes,
        lanes=lanes_of(outcome), uses=tuple(uses_of(outcome.calls)),
    )  # fmt: skip


NAMES: Final = ("title", "tags", "user", "conversation", "model")
"""Fields of `RunNames`, in the order in which a ledger has them."""
_encode: Final = msgspec.msgpack.Encoder().encode
_decode_names: Final = msgspec.msgpack.Decoder(tuple[str, tuple[str, ...], str, str, str]).decode


def encode_names(names: RunNames) -> bytes:
    """Names of a run for its row; nothing where it has none."""
    values = [getattr(names, name) for name in NAMES]
    return _encode(values) if any(values) else b""


# Any: keywords of a summary.
def decode_names(body: bytes) -> dict[str, Any]:
    return dict(zip(NAMES, _decode_names(body), strict=True)) if body else {}


def labels_of(names: RunNames) -> list[str]:
    """What a run is filtered by, as the index of a ledger has it before it takes the digest."""
    pairs = (("user", names.user), ("conversation", names.conversation), ("model", names.model))
    tags = [label("tag", tag) for tag in dict.fromkeys(names.tags)]
    return [*tags, *(label(kind, value) for kind, value in pairs if value)]


def label(kind: str, value: str) -> str:
    return f"{kind}\0{value}"


def filter_labels(query: ExecutionFilter) -> list[str]:
    """Labels that an execution must have; there are none for empty values."""
    kinds = ("tag", "user", "conversation", "model")
    return [label(kind, value) for kind in kinds if (value := getattr(query, kind))]


_TERM: Final = re.compile(r'"([^"]*)"?|([^\s"]+)')


def search_terms(words: str) -> list[tuple[str, bool]]:
    """Terms of a search, at most twenty, and whether a longer word may begin with it, as somebody still types it."""
    terms = [(match[1] if match[1] is not None else match[2], match[2] is not None) for match in _TERM.finditer(words)]
    last = len(terms) - 1
    return [(term, is_word and place == last) for place, (term, is_word) in enumerate(terms) if term.strip()][:20]


def as_text(query: ExecutionFilter) -> ExecutionFilter:
    """The same for a ledger that has first lines only."""
    if query.words is None:
        return query
    return replace(query, words=None, text=" ".join(term for term, _ in search_terms(query.words)))


_OPERATORS: Final = (
    "tool",
    "status",
    "tenant",
    "tag",
    "user",
    "conversation",
    "model",
    "session",
    "interface",
    "since",
)
_PART: Final = re.compile(rf'(?:({"|".join(_OPERATORS)}):)?(?:("[^"]*"?)|(\S+))')
_SPAN: Final = re.compile(r"(\d{1,6})([mhdw])", re.ASCII)
_SECONDS: Final = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def parse_search(text: str, now: float) -> dict[str, Any]:
    """Fields of a filter in what a person typed: `tool:get_orders status:failed since:2d "exact words"`.

    Raises:
        UsageError: A time cannot be read.
    """
    fields: dict[str, Any] = {}
    words: list[str] = []
    for match in _PART.finditer(text[:1000]):
        name, value = match[1], match[2] or match[3]
        if name is None:
            words.append(value)
        elif plain := value.strip('"'):
            fields[name] = _since(plain, now) if name == "since" else plain
    if fields.get("status") in ("running", "paused"):
        fields["state"] = fields.pop("status")
    return {**fields, "words": " ".join(words)} if words else fields


def _since(text: str, now: float) -> float:
    if match := _SPAN.fullmatch(text):
        return now - int(match[1]) * _SECONDS[match[2]]
    try:
        return datetime.fromisoformat(text).astimezone().timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"since must be a time such as 30m, 3h, 2d, 1w or 2026-01-31, got {text[:80]!r}") from error


# Any: the fields of a filter.
def matches_filter(summary: ExecutionSummary, uses: Sequence[ToolUse], query: ExecutionFilter) -> bool:
    pairs: list[tuple[Any, Any]] = [
        (query.id, summary.execution_id), (query.state, summary.state), (query.status, summary.status),
        (query.interface, summary.interface), (query.tenant, summary.tenant), (query.session, summary.session),
        (query.user, summary.user), (query.conversation, summary.conversation), (query.model, summary.model),
    ]  # fmt: skip
    return (
        all(expected is None or expected == actual for expected, actual in pairs)
        and (query.tag is None or query.tag in summary.tags)
        and (query.tool is None or any(use.tool == query.tool for use in uses))
        and (query.since is None or summary.began_at >= query.since)
        and (query.until is None or summary.began_at < query.until)
        and (not query.text or query.text.lower() in f"{summary.title}\n{summary.first_line}".lower())
    )


# ----------------------------------------------------------------------------------------------------
# One execution, followed from any process: its record so far, and again whenever something was written.

_LOOK_SECONDS: Final = 1.0


async def changed_ids(ledger: Ledger) -> AsyncGenerator[str, None]:
    """Ids of executions as they change; empty at first, at least every second, and where some are not known."""
    # Any: an async generator, which the contract calls an iterator.
    changes: Any = ledger.follow()
    loop = asyncio.get_running_loop()
    next_change = asyncio.ensure_future(anext(changes))
    try:
        tick = loop.time() + _LOOK_SECONDS
        while True:
            done, _ = await asyncio.wait([next_change], timeout=max(0.0, tick - loop.time()))
            if loop.time() >= tick:
                yield ""
                tick = loop.time() + _LOOK_SECONDS
            elif done:
                change = next_change.result()
                next_change = asyncio.ensure_future(anext(changes))
                yield change.execution_id
    finally:
        next_change.cancel()
        with suppress(BaseException):
            await next_change
        await changes.aclose()


async def changes_of(ledger: Ledger, execution_id: str) -> AsyncIterator[Story]:
    """Story from the start, then what came since, at least every second; ends with the execution, or its deletion."""
    place = 0
    async with aclosing(changed_ids(ledger)) as ids:
        async for changed_id in ids:
            if changed_id in ("", execution_id):
                story = await ledger.story(execution_id, after=place)
                if story is None:
                    return
                yield story
                if story.state == "ended":
                    return
                place = story.place
