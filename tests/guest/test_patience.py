"""Looking for a message before sleeping: how often it is done depends on how often it paid."""

import socket
from collections.abc import Iterator

import pytest

from toolfold_guest.shared import adaptive_polling
from toolfold_guest.shared.adaptive_polling import FEWEST_SKIPS, LOOKS, MOST_SKIPS, Patience


class Counted:
    """Counts what is really asked of the kernel."""

    def __init__(self, sock: socket.socket) -> None:
        self.patience = Patience(sock)
        self.looks = 0
        poll = self.patience.poll

        def counting(timeout: int) -> list[tuple[int, int]]:
            self.looks += 1
            return poll(timeout)

        self.patience.poll = counting

    def looks_of(self, times: int) -> list[int]:
        """How many looks each of so many questions took."""
        taken = []
        for _ in range(times):
            before = self.looks
            self.patience.sees()
            taken.append(self.looks - before)
        return taken


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adaptive_polling, "HAS_OTHER_CORE", True)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_what_is_there_is_seen_at_the_first_look(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    theirs.send(b"x")
    counted = Counted(ours)

    assert counted.patience.sees()
    assert counted.looks == 1


def test_who_looks_in_vain_looks_less_and_less_often(ends: tuple[socket.socket, socket.socket]) -> None:
    counted = Counted(ends[0])

    taken = counted.looks_of(2 + 3 * FEWEST_SKIPS)

    assert taken == [LOOKS, *[0] * FEWEST_SKIPS, LOOKS, *[0] * 2 * FEWEST_SKIPS]
    many = counted.looks_of(10 * MOST_SKIPS)
    assert 8 <= sum(1 for looks in many if looks) <= 24


def test_a_message_in_time_makes_it_worth_looking_again(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    counted = Counted(ours)
    counted.looks_of(2 + 3 * FEWEST_SKIPS)
    assert counted.patience.is_retry
    theirs.send(b"x")

    assert counted.looks_of(3) == [1, 1, 1]
    assert not counted.patience.is_retry


def test_nobody_looks_where_there_is_one_core(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive_polling, "HAS_OTHER_CORE", False)

    assert Counted(ends[0]).looks_of(1000) == [0] * 1000
