"""The order of messages in one conversation, and what a guest may ask for in all."""

import pytest

from toolfold.models import Limits, Problem
from toolfold.protocol.codec import CallsFrame, Violation, WireCall
from toolfold.protocol.state_machine import Conversation, LimitReached


def running(**limits: int) -> Conversation:
    conversation = Conversation(granted=2, limits=Limits(**limits))  # type: ignore[arg-type]
    conversation.start()
    return conversation


def test_a_program_prints_calls_and_ends() -> None:
    conversation = running()

    conversation.receive(b'[2,"a",""]')
    conversation.receive(b'[1,"","",[[1,0,{}],[2,1,{}]],-1,null]')
    conversation.receive(b'[1,"","",[[3,0,{}]],0,null]')
    conversation.receive(b'[3,"","","finished",null,"",[0,0]]')

    assert conversation.has_ended


def test_nothing_is_legal_before_the_start() -> None:
    with pytest.raises(Violation, match="while parked"):
        Conversation(granted=1, limits=Limits()).receive(b'[2,"a",""]')


def test_nothing_is_legal_after_the_end() -> None:
    conversation = running()
    conversation.receive(b'[3,"","","finished",null,"",[0,0]]')

    with pytest.raises(Violation, match="while ended"):
        conversation.receive(b'[1,"","",[[1,0,{}]],-1,null]')


@pytest.mark.parametrize("calls", ["[0,0,{}]", "[2,0,{}]", "[-1,0,{}]", "[1,0,{}],[1,0,{}]", "[1,0,{}],[3,0,{}]"])
def test_call_ids_rise_by_one(calls: str) -> None:
    with pytest.raises(Violation, match="call id"):
        running().receive(f'[1,"","",[{calls}],-1,null]'.encode())


@pytest.mark.parametrize("tool", [-1, 2, 10**30])
def test_a_tool_outside_the_grant_is_a_violation(tool: int) -> None:
    with pytest.raises(Violation, match="a call of tool"):
        running().receive(f'[1,"","",[[1,{tool},{{}}]],-1,null]'.encode())


@pytest.mark.parametrize("line", [-1, 10_000_001, 10**30])
def test_a_line_that_no_program_has_is_a_violation(line: int) -> None:
    with pytest.raises(Violation, match="a call from line"):
        running().receive(f'[1,"","",[[1,0,{{}},{line}]],-1,null]'.encode())


@pytest.mark.parametrize("line", [0, 1, 10_000_000])
def test_a_call_may_come_from_any_line_or_an_unknown_one(line: int) -> None:
    frame = running().receive(f'[1,"","",[[1,0,{{}},{line}]],-1,null]'.encode())

    assert frame == CallsFrame("", "", [WireCall(1, 0, {}, line)], -1, None)


@pytest.mark.parametrize("line", ["true", "null", "1.5", '"1"', "[1]", "1,2,3"])
def test_a_line_that_is_no_integer_cannot_be_read(line: str) -> None:
    with pytest.raises(Violation, match="cannot be read"):
        running().receive(f'[1,"","",[[1,0,{{}},{line}]],-1,null]'.encode())


@pytest.mark.parametrize("within", [-1, 2, 3, 10**30])
def test_a_call_within_itself_or_a_later_one_is_a_violation(within: int) -> None:
    with pytest.raises(Violation, match=f"call 2 within call {within}"):
        running().receive(f'[1,"","",[[1,0,{{}},1],[2,0,{{}},1,{within}]],-1,null]'.encode())


def test_a_call_within_an_earlier_one_says_so() -> None:
    frame = running().receive(b'[1,"","",[[1,0,{},1],[2,0,{},4,1]],-1,null]')

    assert frame == CallsFrame("", "", [WireCall(1, 0, {}, 1), WireCall(2, 0, {}, 4, within=1)], -1, None)


def test_more_calls_than_the_limit_end_the_program() -> None:
    conversation = running(calls=2)
    conversation.receive(b'[1,"","",[[1,0,{}],[2,0,{}]],-1,null]')

    with pytest.raises(LimitReached) as caught:
        conversation.receive(b'[1,"","",[[3,0,{}]],-1,null]')

    assert caught.value.problem == Problem(kind="calls", message="the program made more than 2 tool calls")


def test_a_frame_is_refused_by_its_header() -> None:
    conversation = running(value_bytes=1000)

    conversation.check_size(1000)

    with pytest.raises(Violation, match="a frame of 4294967295 bytes"):
        conversation.check_size(2**32 - 1)


def test_a_guest_that_does_not_cut_its_output_is_not_ours() -> None:
    conversation = running()
    chunk = b'[2,"' + b"x" * 1024 * 1024 + b'",""]'
    for _ in range(9):
        conversation.receive(chunk)

    with pytest.raises(Violation, match="more stdout"):
        conversation.receive(chunk)


@pytest.mark.parametrize(
    ("end", "breach"),
    [
        ('"done",null,"",[0,0]', "an end of kind 'done'"),
        ('"finished",null,"",[-1,0]', "an impossible size of cut output"),
    ],
)
def test_an_end_that_no_guest_says_is_a_violation(end: str, breach: str) -> None:
    with pytest.raises(Violation) as caught:
        running().receive(f'[3,"","",{end}]'.encode())

    assert str(caught.value) == breach


def test_a_guest_confirms_its_files_once_and_before_anything_but_last_words() -> None:
    conversation = Conversation(granted=1, limits=Limits())
    conversation.start(with_files=True)
    conversation.receive(b'[2,"last words",""]')
    before = conversation.has_files
    conversation.receive(b"[9]")

    with pytest.raises(Violation, match="a message 'unpacked' while running"):
        conversation.receive(b"[9]")
    assert (before, conversation.has_files) == (False, True)


def test_a_guest_that_was_sent_no_files_confirms_none() -> None:
    conversation = Conversation(granted=1, limits=Limits())
    conversation.start()

    with pytest.raises(Violation, match="a message 'unpacked' while running"):
        conversation.receive(b"[9]")
