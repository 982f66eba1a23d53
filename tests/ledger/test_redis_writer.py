"""The task that writes to a Redis ledger, without a server."""

import asyncio
from collections.abc import Sequence
from typing import Any

from redis.exceptions import ConnectionError as ConnectionLost

from tests.ledger.made_up import begun
from toolfold.ledger.base import Retention
from toolfold.ledger.encryption import NoSeal
from toolfold.ledger.redis.write_commands import Job
from toolfold.ledger.redis.writer import RedisWriter


async def test_a_writer_stops_while_somebody_hurries_it_and_the_server_is_away() -> None:
    async def send(scripts: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Any]:
        raise ConnectionLost("refused")

    async def wrote(count: int, size: int) -> None:
        raise AssertionError("nothing can be written")

    writer = RedisWriter(send, NoSeal(), Retention(), 1000, wrote)
    writer.begin(begun("a"))
    await asyncio.sleep(0)  # its task waits for company for what has gathered
    waiter = asyncio.get_running_loop().create_future()
    writer.submit(writer.record("a"), Job("drain", 0, waiter))

    async with asyncio.timeout(60):
        left = await writer.stop()

    assert (left, waiter.done()) == (1, False)
