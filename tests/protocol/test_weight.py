"""What a frame would cost the host is known before it is decoded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold.models import MIB, Limits, Problem
from toolfold.protocol.codec import LARGE_BYTES, EndedFrame, Violation, Weight, weigh
from toolfold.protocol.state_machine import Conversation, LimitReached

TOO_MANY = "the program sent a value of more than 1000000 parts in one message; send text or a file instead"


def running(**limits: int) -> Conversation:
    conversation = Conversation(granted=1, limits=Limits(**limits))  # type: ignore[arg-type]
    conversation.start()
    return conversation


def end_with(value: bytes) -> bytes:
    return b'[3,"","","finished",' + value + b',"",[0,0]]'


def test_parts_in_strings_do_not_count() -> None:
    assert weigh(json.dumps({"a": [1, '[[,,\\"{', {}], "[b\\": "],["}).encode()) == Weight(
        values=3, containers=3, depth=3
    )


@given(
    st.recursive(
        st.none() | st.integers() | st.text(st.sampled_from('"\\[]{},:x')),
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.text(st.sampled_from('"\\[{,')), inner, max_size=4)
        ),
    )
)
def test_the_weight_of_a_value_is_what_a_walk_finds(value: Any) -> None:
    assert weigh(json.dumps(value).encode()) == Weight(
        values=_commas(value), containers=_containers(value), depth=_depth(value)
    )


@pytest.mark.parametrize("part", [b"[]", b"{}", b"0", b'""'])
def test_a_value_of_millions_of_parts_ends_the_program_before_it_is_decoded(part: bytes) -> None:
    with pytest.raises(LimitReached) as caught:
        running(value_bytes=20 * MIB).receive(end_with(b"[" + (part + b",") * 1_500_000 + part + b"]"))

    assert caught.value.problem == Problem(kind="value", message=TOO_MANY)


def test_a_million_numbers_and_a_long_text_full_of_brackets_pass() -> None:
    numbers = list(range(999_000))
    text = "[{}, " * 1_000_000

    ended = [
        running().receive(end_with(json.dumps(value, separators=(",", ":")).encode())) for value in (numbers, text)
    ]

    assert [frame.value for frame in ended if isinstance(frame, EndedFrame)] == [numbers, text]


def test_a_large_frame_that_is_nested_too_deeply_is_a_violation() -> None:
    deep = b"[" * 300 + b"]" * 300

    with pytest.raises(Violation, match="nested more than 256 levels deep"):
        running().receive(end_with(b"[" + (b'"' + b"x" * 100 + b'",') * (LARGE_BYTES // 100) + deep + b"]"))


def test_what_a_program_sends_in_all_has_a_limit() -> None:
    conversation = running(sent_bytes=1 * MIB)
    call = '[1,"","",[[%d,0,{"a":"' + "x" * 100_000 + '"}]],-1,null]'
    for number in range(1, 11):
        conversation.receive((call % number).encode())

    with pytest.raises(LimitReached) as caught:
        conversation.receive((call % 11).encode())

    message = (
        "the program's calls, output and value together take more than 1 MiB; send less, or fewer and larger parts"
    )
    assert caught.value.problem == Problem(kind="value", message=message)


def test_small_parts_count_as_what_they_take_in_memory() -> None:
    conversation = running(sent_bytes=1 * MIB)
    lists = "[" + "[]," * 5_000 + "[]]"
    conversation.receive(f'[1,"","",[[1,0,{{"a":{lists}}}]],-1,null]'.encode())
    conversation.receive(f'[1,"","",[[2,0,{{"a":{lists}}}]],-1,null]'.encode())

    with pytest.raises(LimitReached):
        conversation.receive(f'[1,"","",[[3,0,{{"a":{lists}}}]],-1,null]'.encode())


def test_output_without_a_character_is_a_violation() -> None:
    with pytest.raises(Violation, match="output without a character"):
        running().receive(b'[2,"",""]')


def test_every_message_counts_however_small() -> None:
    conversation = running(sent_bytes=1 * MIB)

    with pytest.raises(LimitReached):
        _receive_often(conversation, b'[2,"x",""]', times=10_000)


def test_a_frame_is_refused_by_its_header_near_what_a_guest_may_send() -> None:
    with pytest.raises(Violation, match="a frame of 31457280 bytes"):
        running().check_size(30 * MIB)


def _receive_often(conversation: Conversation, body: bytes, *, times: int) -> None:
    for _ in range(times):
        conversation.receive(body)


def _commas(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max(0, len(inner) - 1) + sum(map(_commas, inner))


def _containers(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + sum(map(_containers, value.values() if isinstance(value, dict) else value))


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
