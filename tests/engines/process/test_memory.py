"""How much memory a guest takes, asked again and again."""

import os
from collections.abc import Iterator

import pytest

from toolfold.engines.process.guest import MemoryGauge


@pytest.fixture
def pidfd() -> Iterator[int]:
    """Of this process."""
    fd = os.pidfd_open(os.getpid())
    yield fd
    os.close(fd)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_it_sees_what_was_taken_since(pidfd: int) -> None:
    gauge = MemoryGauge()

    before = gauge.read(pidfd)
    taken = b"x" * 50_000_000
    after = gauge.read(pidfd)
    gauge.close()

    assert after - before > 0.9 * len(taken)


def test_many_of_them_keep_only_some_files_open_and_give_them_back(pidfd: int) -> None:
    before, gauges = descriptors(), [MemoryGauge() for _ in range(200)]

    read = [gauge.read(pidfd) > 0 for gauge in gauges]
    kept = descriptors() - before
    for gauge in gauges:
        gauge.close()
        gauge.close()

    assert (all(read), 0 < kept <= 64, descriptors()) == (True, True, before)


def test_one_that_has_ended_takes_nothing() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    gauge, fd = MemoryGauge(), os.pidfd_open(child)
    os.waitpid(child, 0)

    read = gauge.read(fd)
    os.close(fd)

    assert read == 0
