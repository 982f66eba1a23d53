"""The checker finds each bug that is planted into the real product, and nothing where there is none."""

from pathlib import Path

import pytest

from tests.faults.gauntlets import redis_gauntlet, rerun_gauntlet, sqlite_gauntlet
from tests.faults.planted import BUGS
from tests.ledger.redis_server import RedisServer, given_redis_server, given_shared_server  # noqa: F401

pytestmark = pytest.mark.long

ON_SQLITE = {
    "client replies replaced by the last one": {"never answered", "not 503", "wrong reply"},
    "host replies lost on replay": {"never answered", "not 503", "wrong reply"},
    "clock not replayed": {"never answered", "not 503"},
    "pause acknowledged before its commit": {"changed past"},
    "write-ahead file not written": {"doubled call"},
    "last client reply dropped on resume": {"lost execution"},
    "host replies not known on replay": {"never answered"},
    "idempotency key forgotten": {"doubled call", "second answer", "second execution"},
    "end never marked": {"end not on record"},
    "files of programs wiped": {"wiped file"},
    "failure without 503": {"not 503"},
    "second answer to the same request": {"second answer"},
}
"""What gives each of them away, at least."""
ON_REDIS = {"Redis fence ignored": {"doubled call"}, "Redis entries written twice": {"entry written twice"}}
IN_RERUNS = {"rerun with a wrong reply": {"wrong reply"}}


def test_each_bug_has_its_test() -> None:
    assert {*ON_SQLITE, *ON_REDIS, *IN_RERUNS} == {*BUGS}


@pytest.mark.parametrize("bug", ON_SQLITE)
async def test_a_bug_of_a_server_on_a_file_is_found(bug: str, tmp_path: Path) -> None:
    found = await sqlite_gauntlet(tmp_path, bug)

    assert ON_SQLITE[bug] <= {violation.kind for violation in found}, found


async def test_nothing_is_found_at_a_server_on_a_file(tmp_path: Path) -> None:
    assert await sqlite_gauntlet(tmp_path) == []


@pytest.mark.parametrize("bug", ON_REDIS)
async def test_a_bug_of_replicas_is_found(bug: str, tmp_path: Path, redis_server: RedisServer) -> None:
    found = await redis_gauntlet(tmp_path, redis_server, bug)

    assert ON_REDIS[bug] <= {violation.kind for violation in found}, found


async def test_nothing_is_found_at_replicas(tmp_path: Path, redis_server: RedisServer) -> None:
    assert await redis_gauntlet(tmp_path, redis_server) == []


async def test_a_bug_of_reruns_is_found(tmp_path: Path) -> None:
    found = await rerun_gauntlet(tmp_path, "rerun with a wrong reply")

    assert IN_RERUNS["rerun with a wrong reply"] <= {violation.kind for violation in found}, found


async def test_nothing_is_found_in_reruns(tmp_path: Path) -> None:
    assert await rerun_gauntlet(tmp_path) == []
