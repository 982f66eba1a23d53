"""A fork's system calls, written down before it: what they do, and that a surprise is refused."""

import gc
import os
import select
import socket
from pathlib import Path

import pytest

from toolfold_guest.jail.kernel_calls import SyscallList, take


@pytest.fixture
def taken() -> list[int]:
    """The descriptors that are open here."""
    return _open_here()


def _open_here() -> list[int]:
    """Those that a fork finds open: what an earlier test left behind may close its own there."""
    gc.collect()  # what earlier tests dropped would be closed at any moment
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receiving)
            names = os.listdir("/proc/self/fd")
            # The one that listed them is gone by now.
            found = [name for name in names if int(name) != sending and os.path.exists(f"/proc/self/fd/{name}")]
            os.write(sending, " ".join(found).encode())
        finally:
            os._exit(0)
    os.close(sending)
    with open(receiving, encoding="utf-8") as report:
        text = report.read()
    os.waitpid(child, 0)
    return [int(name) for name in text.split()]


def _in_fork(steps: SyscallList) -> str:
    """What became of the steps in a process of its own; empty if all is well."""
    receiving, sending = os.pipe()
    planned = steps.planned()
    child = os.fork()
    if child == 0:
        problem = ""
        try:
            # Where the plan has nothing: the report is not one of the steps.
            os.dup2(sending, 99)
            os.close(receiving)
            os.close(sending)
            take(planned)
        except OSError as error:
            problem = error.strerror or "?"
        finally:
            os.write(99, problem.encode())
            os._exit(0)
    os.close(sending)
    with open(receiving, encoding="utf-8") as report:
        text = report.read()
    os.waitpid(child, 0)
    return text


def test_steps_do_what_they_say(taken: list[int], tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"old")
    steps = SyscallList(taken)
    steps.make_folder(str(tmp_path / "new"))
    steps.change_folder(str(tmp_path / "new"))
    fd = steps.open("file", os.O_RDWR | os.O_CREAT, 0o600)
    steps.add("write", fd, b"text", 4, result=4)
    steps.close(fd)
    folder = steps.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY)
    steps.write("there", b"new", folder=folder)
    steps.write("missing", b"new", folder=folder, must=False)
    steps.remove_file("file")
    again = steps.open("again", os.O_RDWR | os.O_CREAT, 0o600)
    free = [number for number in range(len(taken) + 2) if number not in taken]
    assert (fd, folder, again) == (free[0], free[0], free[1])
    assert _in_fork(steps) == ""
    assert (tmp_path / "there").read_bytes() == b"new"
    assert os.listdir(tmp_path / "new") == ["again"]


def test_a_call_that_fails_is_named(taken: list[int], tmp_path: Path) -> None:
    steps = SyscallList(taken)
    steps.change_folder(str(tmp_path / "missing"))
    assert _in_fork(steps) == "chdir: No such file or directory"


def test_a_descriptor_that_nobody_planned_for_is_refused(taken: list[int], tmp_path: Path) -> None:
    missing = SyscallList(taken).free()
    steps = SyscallList([*taken, missing])
    fd = steps.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY)
    steps.add("write", fd, b"never", 5, result=5)
    assert _in_fork(steps) == f"openat: returned {missing} instead of {fd}"


def test_a_descriptor_is_handed_over_with_its_text(tmp_path: Path) -> None:
    here, there = socket.socketpair()
    with here, there:
        steps = SyscallList(_open_here())
        folder = steps.open(str(tmp_path), os.O_RDONLY | os.O_DIRECTORY)
        steps.hand_over(folder, by=there.fileno(), text=b"D")
        steps.close(folder)
        assert _in_fork(steps) == ""
        assert select.select([here], [], [], 0)[0] == [here]
        text, fds, _, _ = socket.recv_fds(here, 10, 10)
        assert text == b"D"
        assert [os.path.samestat(os.fstat(fd), os.stat(tmp_path)) for fd in fds] == [True]
        for fd in fds:
            os.close(fd)
