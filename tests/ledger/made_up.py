"""Executions to write into ledgers, and hypothesis strategies for everything that a ledger keeps."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args

from hypothesis import strategies as st

from toolfold.ledger.record import Begun, Decided, Entry, Given, Made, Moment, MomentKind, Parked, Tape
from toolfold.models import (
    OWN_SETS,
    Call,
    CallRecord,
    ContextSaved,
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


def begun(execution_id: str, *, began_at: float = 1000.0, **more: Any) -> Begun:
    given = {"program": Program(text="print(await price('ACME'))"), "tools": TOOLS, "limits": Limits(), **more}
    return Begun(execution_id=execution_id, began_at=began_at, **given)


def made(call_id: int, **arguments: Any) -> Made:
    return Made(Call(id=call_id, tool="price", arguments=arguments))


def given(call_id: int, value: Any = None, **arguments: Any) -> Given:
    return Given(Reply(call_id=call_id, value=value), CallRecord(id=call_id, name="price", arguments=arguments))


def outcome(execution_id: str, **more: Any) -> Outcome:
    return Outcome(**{"execution_id": execution_id, "status": "finished", **more})


def pairs(count: int, value: Any = None) -> Iterator[Entry]:
    for call_id in range(1, count + 1):
        yield made(call_id)
        yield given(call_id, value)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(allow_nan=False)
media = st.builds(
    Media,
    kind=st.sampled_from(["image", "audio", "link", "file"]),
    mime=texts,
    data=st.binary(max_size=20),
    uri=texts,
    name=texts,
)
looks_like_media = st.fixed_dictionaries(dict.fromkeys(("kind", "mime", "data", "uri", "name"), texts))
leaves = st.none() | st.booleans() | st.integers() | numbers | texts | st.binary(max_size=20) | media | looks_like_media
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=12
)
objects = st.dictionaries(texts, values, max_size=4)
counts = st.integers(0, 2**63 - 1)
files = st.builds(File, name=texts, data=st.binary(max_size=40), mime=texts)


def tuples(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


records = st.builds(
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
    cached=st.booleans(),
    breaker=texts,
    from_record=st.booleans(),
    used_arguments=st.none() | objects,
    traceback=texts,
)
metas = st.builds(ReplyMeta, attempts=counts, cached=st.booleans(), arguments=st.none() | objects)
replies = st.builds(Reply, call_id=counts, value=values, error=st.none() | texts, meta=st.none() | metas)
calls = st.builds(Call, id=counts, tool=texts, arguments=objects)
clocks = st.integers(0, 2**63) | numbers
tapes = st.builds(Tape, wakes=tuples(counts), clocks=tuples(clocks), is_spoilt=st.booleans())
decided = st.builds(
    Decided,
    counts,
    st.booleans(),
    texts,
    texts,
    st.sampled_from(["call", "arguments", "tool"]),
    st.none() | counts,
    counts,
)
entries = (
    st.builds(Made, calls, numbers)
    | st.builds(Given, replies, records)
    | tapes
    | st.builds(Parked, counts)
    | decided
    | st.builds(
        Moment, kind=st.sampled_from(get_args(MomentKind)), at=numbers, call_id=counts, text=texts, facts=objects
    )
)

tools = st.builds(
    ToolSpec,
    name=texts,
    python_name=texts,
    aliases=tuples(texts),
    description=texts,
    input_schema=objects,
    output_schema=st.none() | objects,
    examples=tuples(objects),
    read_only=st.booleans(),
    allowed_callers=st.sampled_from(["direct", "code", "both"]),
    timeout_seconds=st.none() | numbers,
)
limits = st.builds(
    Limits, **{field.name: numbers if field.name == "wall_seconds" else counts for field in fields(Limits)}
)
programs = st.builds(
    Program, text=texts, library_set=st.sampled_from([*OWN_SETS, "main-0123abcd"]), preset_names=tuples(texts)
)
beginnings = st.builds(
    Begun,
    execution_id=texts,
    program=programs,
    tools=tuples(tools),
    outside=tuples(texts),
    limits=limits,
    files=tuples(files),
    seed=counts,
    engine=texts,
    tenant=texts,
    began_at=numbers,
)
problems = st.builds(
    Problem,
    kind=st.sampled_from(get_args(ProblemKind)),
    message=texts,
    line=st.none() | counts,
    column=st.none() | counts,
    source=texts,
)
outcomes = st.builds(
    Outcome,
    execution_id=texts,
    status=st.sampled_from(get_args(Status)),
    value=values,
    stdout=texts,
    stderr=texts,
    problem=st.none() | problems,
    calls=tuples(records),
    files=tuples(files),
    seconds=numbers,
    context_saved=st.builds(ContextSaved, tokens=counts, bytes=counts, method=texts),
    hints=tuples(texts),
)
