import random

import pytest
from hypothesis import given as property_test
from hypothesis import settings
from hypothesis import strategies as st

from tests.ledger.made_up import beginnings, entries, given, outcome, outcomes, records, values
from toolfold import Media, UsageError
from toolfold.ledger import codec
from toolfold.ledger.base import CallEntry, ReplyEntry, TapeEntry
from toolfold.models import Call, CallRecord, Outcome, Reply

pytestmark = pytest.mark.long


@property_test(st.lists(entries, max_size=5))
@settings(max_examples=60, deadline=None)
def test_entries_come_back_exactly(noted: list[CallEntry | ReplyEntry | TapeEntry]) -> None:
    body = codec.join_entries([codec.encode_entry(entry) for entry in noted])

    found = codec.decode_entries(codec.inflate(codec.deflate(body)))

    assert found == noted
    assert [repr(entry) for entry in found] == [repr(entry) for entry in noted]


@property_test(beginnings)
@settings(max_examples=40, deadline=None)
def test_a_beginning_comes_back_exactly_with_its_grant_stored_apart(begun) -> None:
    tools = codec.decode_tools(codec.encode_tools(begun.tools))

    assert codec.decode_start(codec.encode_start(begun), tools) == begun


@property_test(outcomes)
@settings(max_examples=40, deadline=None)
def test_an_outcome_comes_back_exactly(ended: Outcome) -> None:
    assert codec.decode_outcome(codec.encode_outcome(ended, {}), []) == ended


@property_test(st.lists(records, max_size=4, unique_by=lambda record: record.id))
@settings(max_examples=30, deadline=None)
def test_an_outcome_does_not_repeat_the_calls_that_its_entries_hold(noted: list[CallRecord]) -> None:
    ended = outcome("a", calls=tuple(sorted(noted, key=lambda record: record.id)))
    delivered = [ReplyEntry(Reply(call_id=record.id), record) for record in noted]

    body = codec.encode_outcome(ended, {record.id: record for record in noted})

    assert len(body) == len(codec.encode_outcome(outcome("a"), {}))
    assert codec.decode_outcome(body, delivered) == ended


@property_test(values)
@settings(max_examples=40, deadline=None)
def test_a_value_is_frozen_the_moment_it_is_encoded(value) -> None:
    holder = [value]
    body = codec.encode_entry(given(1, holder))

    holder.clear()

    assert codec.decode_entries(codec.join_entries([body])) == [given(1, [value])]


def test_a_dict_with_the_keys_of_media_stays_a_dict() -> None:
    picture = Media(kind="image", mime="image/png", data=b"\x89PNG")
    lookalike = {"kind": "image", "mime": "image/png", "data": b"\x89PNG", "uri": "", "name": ""}

    body = codec.encode_entry(given(1, [picture, lookalike]))

    assert codec.decode_entries(codec.join_entries([body])) == [given(1, [picture, lookalike])]


def test_a_lone_surrogate_in_an_error_text_is_shown_not_fatal() -> None:
    broken = ReplyEntry(Reply(call_id=1, error="bad \ud800"), CallRecord(id=1, name="x", arguments={}))

    found = codec.decode_entries(codec.join_entries([codec.encode_entry(broken)]))

    assert found == [ReplyEntry(Reply(call_id=1, error="bad \\ud800"), CallRecord(id=1, name="x", arguments={}))]


def test_a_value_that_cannot_be_kept_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        codec.encode_entry(CallEntry(Call(id=1, tool="x", arguments={"it": object()})))

    assert str(caught.value) == "a value of type 'object' cannot be kept; JSON values, bytes and Media can"


@pytest.mark.parametrize("body", [b"", b"x" * 10, b"abc" * 10_000, bytes(range(256)) * 100])
def test_a_body_comes_back_whether_it_shrinks_or_not(body: bytes) -> None:
    assert codec.inflate(codec.deflate(body)) == body


def test_what_does_not_shrink_is_not_worked_on() -> None:
    noise = random.Random(1).randbytes(100_000)

    assert codec.deflate(noise) == b"\0" + noise
