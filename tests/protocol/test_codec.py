"""Frames from a guest: what is legal is read whole, everything else is a violation."""

import contextlib
import json
import marshal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolfold.models import Media, Reply, ToolSpec
from toolfold.protocol.codec import (
    CallsFrame,
    EndedFrame,
    PrintedFrame,
    Violation,
    WireCall,
    decode_frame,
    encode_facts,
    encode_program,
    encode_reply,
    tool_facts,
)
from toolfold_guest.program import value_encoder
from toolfold_guest.shared.wire_format import HEADER, PROGRAM, REPLY

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


def test_each_kind_of_frame_is_read() -> None:
    calls = decode_frame(b'[1,"out","err",[[1,0,{"a":1},12],[2,3,{}]],7,null]')
    printed = decode_frame(b'[2,"x","y"]')
    ended = decode_frame(b'[3,"","","finished",{"a":[1]},"",[0,5]]')

    assert calls == CallsFrame("out", "err", [WireCall(1, 0, {"a": 1}, 12), WireCall(2, 3, {}, 0)], 7, None)
    assert printed == PrintedFrame("x", "y")
    assert ended == EndedFrame("", "", "finished", {"a": [1]}, "", (0, 5))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"[10]",
        b'[2,"x"]',
        b'[2,"x","y","z"]',
        b'[2,1,"y"]',
        b'[1,"","",[[1,0]],0,null]',
        b'[1,"","",[["1",0,{}]],0,null]',
        b'[1,"","",[[1,0,[]]],0,null]',
        b'[3,"","","finished",NaN,"",[0,0]]',
        b'[3,"","","finished","\\ud800","",[0,0]]',
        b'[3,"","","finished",null,"",[0]]',
        b'[3,"","","finished",{"\\u0000b":"!"},"",[0,0]]',
        b'[3,"","","finished",{"\\u0000b":7},"",[0,0]]',
        b'[3,"","","finished",{"\\u0000m":["x"]},"",[0,0]]',
        b'[3,"","","finished",{"\\u0000m":["exe","a","","",""]},"",[0,0]]',
        b"\xff\xfe",
        b'[3,"","","finished",' + b"[" * 300 + b"]" * 300 + b',"",[0,0]]',
        b'[3,"","","finished",' + b"[" * 100_000 + b"]" * 100_000 + b',"",[0,0]]',
    ],
)
def test_anything_else_is_a_violation(body: bytes) -> None:
    with pytest.raises(Violation):
        decode_frame(body)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_violation(body: bytes) -> None:
    with contextlib.suppress(Violation):
        decode_frame(body)


@given(json_values)
def test_what_the_guest_encodes_the_host_reads_back(value: Any) -> None:
    text = value_encoder.encode({"v": value}, "argument ")

    frame = decode_frame(f'[1,"","",[[1,0,{text}]],-1,null]'.encode())

    assert isinstance(frame, CallsFrame)
    assert frame.calls[0].arguments == {"v": value}


def test_media_cross_both_ways() -> None:
    image = Media(kind="image", mime="image/png", data=b"\x89PNG", name="a.png")

    frame = encode_reply(Reply(call_id=4, value={"a": [image]}))
    inside = value_encoder.revive(marshal.loads(frame[HEADER.size :])[3])
    back = decode_frame(f'[3,"","","finished",{value_encoder.encode(inside, "value")},"",[0,0]]'.encode())

    assert inside["a"][0].data == b"\x89PNG"
    assert isinstance(back, EndedFrame)
    assert back.value == {"a": [image]}


def test_a_reply_with_an_error_carries_only_its_text() -> None:
    frame = encode_reply(Reply(call_id=2, error="'x' failed: no"))

    assert marshal.loads(frame[HEADER.size :]) == (REPLY, 2, False, "'x' failed: no", False)


@pytest.mark.parametrize(
    ("schema", "takes_object"),
    [
        ({"type": "string"}, False),
        ({"type": ["string", "object"]}, True),
        ({"anyOf": [{"type": "null"}, {"type": "object"}]}, True),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, False),
        ({"enum": ["a"]}, False),
        ({}, True),
        (True, True),
    ],
)
def test_a_guest_is_told_whether_the_first_parameter_takes_an_object(schema: Any, takes_object: bool) -> None:
    spec = ToolSpec(name="a-b", python_name="a_b", input_schema={"type": "object", "properties": {"x": schema}})

    assert tool_facts(spec) == ("a-b", "a_b", (), "", "", ("x",), (), takes_object, "")


def test_the_guest_writes_plain_json_for_plain_values() -> None:
    rows = [{"id": 1, "name": "ä", "score": 1.5, "tags": ["x"], "none": None}]

    assert json.loads(value_encoder.encode(rows, "value")) == rows


@given(st.text(st.characters(codec=None)), st.lists(st.tuples(st.text(), st.lists(st.text()), st.booleans())))
def test_a_program_and_the_facts_of_its_tools_arrive_as_they_were(text: str, facts: list[tuple[Any, ...]]) -> None:
    frame = encode_program(text, encode_facts(facts))

    kind, arrived, tools = marshal.loads(frame[HEADER.size :])
    assert (kind, arrived, marshal.loads(tools)) == (PROGRAM, text, facts)
    assert int.from_bytes(frame[: HEADER.size], "little") == len(frame) - HEADER.size
