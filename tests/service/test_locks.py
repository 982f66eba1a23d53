"""Owners of executions by locked files: taken once, taken over from processes that are gone."""

import os
from pathlib import Path

import pytest

from toolfold.service.owners import ExecutionLocks


def test_a_program_that_no_process_ever_held_is_nobodys_to_take(tmp_path: Path) -> None:
    one, two = ExecutionLocks(tmp_path / "held"), ExecutionLocks(tmp_path / "held")

    assert not one.take("a", is_new=False)
    assert one.take("a", is_new=True)
    assert not two.take("a", is_new=False)
    one.close()
    assert two.take("a", is_new=False)
    two.drop("a", has_ended=True)
    assert not one.take("a", is_new=False)


def test_an_execution_whose_owner_is_gone_is_orphaned_until_it_is_taken_over_or_has_ended(tmp_path: Path) -> None:
    first, second = ExecutionLocks(tmp_path / "held"), ExecutionLocks(tmp_path / "held")
    states = [(second.exists("a"), second.is_orphaned("a"))]

    for step in (
        lambda: first.take("a", is_new=True, data=b"options"),
        first.close,
        lambda: second.take("a", is_new=False),
        lambda: second.drop("a", has_ended=True),
    ):
        step()
        states.append((second.exists("a"), second.is_orphaned("a")))

    assert states == [(False, False), (True, False), (True, True), (True, False), (False, False)]


def test_a_killed_process_leaves_its_data_and_no_lock(tmp_path: Path) -> None:
    locks = ExecutionLocks(tmp_path / "held")
    child = os.fork()
    if child == 0:
        ExecutionLocks(tmp_path / "held").take("../a b", is_new=True, data=b"options")
        os._exit(9)
    os.waitpid(child, 0)

    assert locks.is_orphaned("../a b")
    assert locks.read("../a b") == b"options"
    assert [path.name for path in (tmp_path / "held").iterdir()] == ["___a_b"]


def test_a_folder_that_cannot_be_made_costs_the_restart_or_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "held"

    assert ExecutionLocks(folder).take("a", is_new=True)
    assert not ExecutionLocks(folder).take("a", is_new=False)
    with pytest.raises(OSError, match="Not a directory"):
        ExecutionLocks(folder, is_required=True).take("a", is_new=True)
