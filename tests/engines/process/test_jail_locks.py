"""What a guest could leave on files that it does not own: locks, flags, hints."""

import fcntl
import os
import struct

import pytest

from tests.engines.process.probing import answer, guest, jail
from toolfold.engines.process.zygote_launch import LANDLOCK, NAMESPACE, NONE, Tier

both_tiers = pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK], ids=lambda tier: tier.name)
every_tier = pytest.mark.parametrize("tier", [NAMESPACE, LANDLOCK, NONE], ids=lambda tier: tier.name)

TAKE = """
import fcntl, os

def try_to(lock, *arguments):
    try:
        lock(*arguments)
    except OSError as error:
        return error.strerror

file = os.open(os.__file__, os.O_RDONLY)
result = [
    try_to(fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB),
    try_to(fcntl.lockf, file, fcntl.LOCK_SH | fcntl.LOCK_NB),
    try_to(fcntl.fcntl, file, 37, bytes(32)),
]
"""


@both_tiers
async def test_a_guest_locks_no_file_of_the_host(tier: Tier) -> None:
    async with guest(tier) as one:
        answers = await answer(one, TAKE)
        host_is_free = _is_free(os.__file__)

    assert answers == ["No locks available", None, "No locks available"]
    assert host_is_free


@both_tiers
async def test_a_database_and_a_lock_file_of_the_guests_own_work(tier: Tier) -> None:
    text = """
import fcntl, sqlite3
with open("lock", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_UN)
result = []
for mode in ("delete", "wal"):
    with sqlite3.connect(f"{mode}.db") as database:
        database.execute(f"pragma journal_mode={mode}")
        database.execute("create table numbers (n)")
        database.executemany("insert into numbers values (?)", [(n,) for n in range(10)])
    result += sqlite3.connect(f"{mode}.db").execute("select sum(n) from numbers").fetchone()
"""
    async with guest(tier) as one:
        assert await answer(one, text) == [45, 45]


@every_tier
async def test_no_two_guests_share_an_open_file(tier: Tier) -> None:
    mark = """
import fcntl, os
result = []
for fd in range(3):
    before = fcntl.fcntl(fd, fcntl.F_GETFL)
    fcntl.fcntl(fd, fcntl.F_SETFL, before | os.O_APPEND | os.O_NONBLOCK)
    result.append(bool(before & (os.O_APPEND | os.O_NONBLOCK)))
"""
    async with jail(tier) as zygote:
        guests = zygote.spawn_many(3)
        seen = []
        for one in guests:
            await one.ready
            seen.append(await answer(one, mark))
            one.close()

    assert seen == [[False, False, False]] * 3


def _is_free(path: str) -> bool:
    wanted = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = fcntl.fcntl(file, fcntl.F_GETLK, wanted)
    return bool(struct.unpack_from("h", found)[0] == fcntl.F_UNLCK)
