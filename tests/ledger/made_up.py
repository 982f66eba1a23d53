"""Executions to write into ledgers, and hypothesis strategies for everything that a ledger keeps."""

import asyncio
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import fields
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, get_args

from hypothesis import strategies as st

from toolfold.ledger.base import (
    CallEntry,
    DecisionEntry,
    Entry,
    ExecutionFilter,
    ExecutionHistory,
    HandoverEntry,
    Moment,
    MomentKind,
    PauseEntry,
    ReplyEntry,
    StartRecord,
    TapeEntry,
)
from toolfold.ledger.redis.store import RedisLedger
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.models import (
    OWN_SETS,
    AllowedCallers,
    Call,
    CallRecord,
    ContextSaved,
    Covers,
    File,
    Limits,
    Media,
    Outcome,
    Problem,
    ProblemKind,
    Program,
    Reply,
    ReplyMeta,
    Status,
    ToolSpec,
)

TOOLS = (ToolSpec(name="price", python_name="price", description="The last price."),)


def begun(execution_id: str, *, began_at: float = 1000.0, **more: Any) -> StartRecord:
    given = {"program": Program(text="print(await price('ACME'))"), "tools": TOOLS, "limits": Limits(), **more}
    return StartRecord(execution_id=execution_id, began_at=began_at, **given)


def made(call_id: int, **arguments: Any) -> CallEntry:
    return CallEntry(Call(id=call_id, tool="price", arguments=arguments))


def given(call_id: int, value: Any = None, **arguments: Any) -> ReplyEntry:
    return ReplyEntry(Reply(call_id=call_id, value=value), CallRecord(id=call_id, name="price", arguments=arguments))


def outcome(execution_id: str, **more: Any) -> Outcome:
    return Outcome(**{"execution_id": execution_id, "status": "finished", **more})


def pairs(count: int, value: Any = None) -> Iterator[Entry]:
    for call_id in range(1, count + 1):
        yield made(call_id)
        yield given(call_id, value)


def long_ledger(path: Path, count: int) -> None:
    """A SQLite ledger of so many executions that ended, without a call; each fiftieth is of a tenant of its own."""

    async def write_first() -> None:
        ledger = SqliteLedger(path)
        ledger.begin(begun(f"{1:016x}", tenant="loud"))
        await ledger.finish(f"{1:016x}", outcome(f"{1:016x}"), wait=True)
        await ledger.close()

    asyncio.run(write_first())
    own = ("number", "id", "began_at", "touched_at", "tenant")
    with closing(sqlite3.connect(path)) as connection, connection:
        columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(executions)") if name not in own]
        copied = ", ".join(columns)
        connection.execute(
            f"INSERT INTO executions ({copied}, id, began_at, touched_at, tenant)"
            f" WITH RECURSIVE numbers(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
            f" SELECT {copied}, printf('%016x', n), began_at + n * 0.01, touched_at + n * 1e-6,"
            " iif(n % 50, 'loud', 'quiet') FROM numbers, executions WHERE number = 1"
        )
        connection.execute(
            "INSERT INTO pieces SELECT number, piece, body FROM executions, pieces WHERE execution = 1 AND number > 1"
        )


_T = TypeVar("_T")


def whole(kind: type[_T], /, **of_fields: st.SearchStrategy[Any]) -> st.SearchStrategy[_T]:
    """As `st.builds`, with every field: one that is left out would come back from a ledger as its default, unseen."""
    left_out = signature(kind).parameters.keys() - of_fields.keys()
    assert not left_out, f"{kind.__name__} also has {', '.join(sorted(left_out))}"
    return st.builds(kind, **of_fields)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
flags = st.booleans()
numbers = st.floats(allow_nan=False)
media = whole(
    Media,
    kind=st.sampled_from(["image", "audio", "link", "file"]),
    mime=texts,
    data=st.binary(max_size=20),
    uri=texts,
    name=texts,
)
looks_like_media = st.fixed_dictionaries(dict.fromkeys(("kind", "mime", "data", "uri", "name"), texts))
leaves = st.none() | flags | st.integers() | numbers | texts | st.binary(max_size=20) | media | looks_like_media
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=4)
counts = st.integers(0, 2**63 - 1)
files = whole(File, name=texts, data=st.binary(max_size=40), mime=texts)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


records = whole(
    CallRecord,
    id=counts,
    name=texts,
    arguments=objects,
    started_seconds=numbers,
    seconds=numbers,
    error=st.none() | texts,
    bytes_in=counts,
    bytes_out=counts,
    attempts=counts,
    cached=flags,
    breaker=texts,
    from_record=flags,
    used_arguments=st.none() | objects,
    line=counts,
    within=counts,
    traceback=texts,
)
metas = whole(ReplyMeta, attempts=counts, cached=flags, breaker=texts, from_record=flags, arguments=st.none() | objects)
replies = whole(
    Reply,
    call_id=counts,
    value=values,
    error=st.none() | texts,
    size_bytes=st.none() | counts,
    meta=st.none() | metas,
    traceback=texts,
)
calls = whole(Call, id=counts, tool=texts, arguments=objects, line=counts, within=counts)
clocks = st.integers(0, 2**63) | numbers
entries = (
    whole(CallEntry, call=calls, at=numbers)
    | whole(ReplyEntry, reply=replies, record=records)
    | whole(TapeEntry, wakes=tuples(counts), clocks=tuples(clocks), is_spoilt=flags, seconds_left=st.none() | numbers)
    | whole(HandoverEntry, call_id=counts, is_open=flags)
    | whole(PauseEntry, round=counts)
    | whole(
        DecisionEntry,
        call_id=counts,
        approved=flags,
        reason=texts,
        by=texts,
        covers=st.sampled_from(get_args(Covers)),
        calls=st.none() | counts,
        under=counts,
    )
    | whole(Moment, kind=st.sampled_from(get_args(MomentKind)), at=numbers, call_id=counts, text=texts, facts=objects)
)

tools = whole(
    ToolSpec,
    name=texts,
    python_name=texts,
    aliases=tuples(texts),
    domain=texts,
    short_name=texts,
    description=texts,
    input_schema=objects,
    output_schema=st.none() | objects,
    examples=tuples(objects),
    read_only=flags,
    idempotent=flags,
    destructive=flags,
    allowed_callers=st.sampled_from(get_args(AllowedCallers)),
    timeout_seconds=st.none() | numbers,
    cache_seconds=numbers,
    is_lenient=flags,
    source=texts,
)
limits = st.builds(
    Limits, **{field.name: numbers if field.name == "wall_seconds" else counts for field in fields(Limits)}
)
programs = whole(
    Program,
    text=texts,
    library_set=st.sampled_from([*OWN_SETS, "main-0123abcd"]),
    preset_names=tuples(texts),
    sent=texts,
    notes=tuples(texts),
    stdin=st.none() | texts,
    clock=st.none() | numbers,
    language=st.sampled_from(["python", "bash"]),
)
beginnings = whole(
    StartRecord,
    execution_id=texts,
    program=programs,
    tools=tuples(tools),
    outside=tuples(texts),
    limits=limits,
    files=tuples(files),
    brought=tuples(texts),
    seed=counts,
    engine=texts,
    isolation=texts,
    tenant=texts,
    session=texts,
    rerun_of=texts,
    began_at=numbers,
    expires_at=numbers,
    is_strict=flags,
    interface=texts,
    is_direct=flags,
    title=texts,
    tags=tuples(texts),
    user=texts,
    conversation=texts,
    model=texts,
)
problems = whole(
    Problem,
    kind=st.sampled_from(get_args(ProblemKind)),
    message=texts,
    line=st.none() | counts,
    column=st.none() | counts,
    source=texts,
)
outcomes = whole(
    Outcome,
    execution_id=texts,
    status=st.sampled_from(get_args(Status)),
    value=values,
    stdout=texts,
    stderr=texts,
    stdout_cut_bytes=counts,
    stderr_cut_bytes=counts,
    problem=st.none() | problems,
    calls=tuples(records),
    files=tuples(files),
    deleted_files=tuples(texts),
    engine=texts,
    isolation=texts,
    seconds=numbers,
    context_saved=whole(ContextSaved, tokens=counts, bytes=counts, method=texts),
    hints=tuples(texts),
    unmade_calls=tuples(texts),
    stdout_tail=texts,
    shapes=tuples(texts),
)


_PRICE = given(1, 7.5, symbol="ACME")
SAMPLE_CONTENTS: Mapping[str, Any] = {
    "ended": ExecutionHistory(
        start_record=begun(
            "c" * 16, interface="cli", session="s", tenant="t", files=(File(name="in.txt", data=b"1"),),
            brought=("in.txt",), seed=7,
        ),
        entries=(made(1, symbol="ACME"), _PRICE),
        state="ended",
        epoch=0,
        outcome=outcome(
            "c" * 16, value=7.5, stdout="7.5\n", calls=(_PRICE.record,), seconds=0.5,
            context_saved=ContextSaved(bytes=7),
        ),
    ),
    "running": ExecutionHistory(
        start_record=begun("d" * 16, began_at=1002.0, interface="http"),
        entries=(made(1, symbol="ACME"),),
        state="running",
        epoch=0,
    ),
    "interfaces": {"a": "mcp", "b": "mcp", "c": "cli", "d": "http", "e": ""},
    "over_mcp": ["b", "a"],
    "savings": [(0.0, "", 1, 0, 0), (0.0, "cli", 1, 7, 0), (0.0, "mcp", 1, 0, 52)],
}  # fmt: skip
"""Contents of the samples in `formats`, which commit f546cd8 wrote with either store."""


async def sample_contents(ledger: SqliteLedger | RedisLedger) -> dict[str, Any]:
    return {
        "ended": await ledger.load("c" * 16),
        "running": await ledger.load("d" * 16),
        "interfaces": {row.execution_id[0]: row.interface for row in await ledger.search(ExecutionFilter())},
        "over_mcp": [row.execution_id[0] for row in await ledger.search(ExecutionFilter(interface="mcp"))],
        "savings": list(await ledger.savings(0.0, 1e12)),
    }
