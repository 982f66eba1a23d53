"""What a program says without measure arrives as far as it may, and is no breach of the protocol."""

from collections.abc import AsyncIterator

import pytest_asyncio

from toolfold.engines.base import Ended, Order, Printed
from toolfold.engines.process import ProcessEngine
from toolfold.models import MIB, Program


@pytest_asyncio.fixture
async def engine() -> AsyncIterator[ProcessEngine]:
    async with ProcessEngine(warm=0) as engine:
        yield engine


async def run(engine: ProcessEngine, text: str) -> tuple[str, Ended]:
    printed = ""
    async with engine.open(Order(program=Program(text=text))) as run:
        async for event in run:
            match event:
                case Printed():
                    printed += event.text
                case Ended():
                    return printed, event
    raise AssertionError("a run has an end")


async def test_a_long_text_in_one_print_arrives_whole_whatever_it_takes_on_the_wire(engine: ProcessEngine) -> None:
    printed, ended = await run(engine, "print('\\0' * 8_000_000, end='')")

    assert (ended.status, len(printed), set(printed)) == ("finished", 8_000_000, {"\0"})


async def test_the_middle_of_an_endless_error_text_is_left_out(engine: ProcessEngine) -> None:
    printed, ended = await run(engine, "raise ValueError('x' * 30_000_000)")

    assert (ended.status, ended.problem and ended.problem.kind) == ("failed", "exception")
    assert printed.split("\n")[-3] == "... 29737982 characters left out ..."


async def test_a_value_is_measured_in_bytes(engine: ProcessEngine) -> None:
    _, ended = await run(engine, "'語' * 5_000_000")

    assert ended.problem is not None
    assert (ended.status, ended.problem.message) == (
        "limit",
        f"the program's value takes 15000002 bytes; the limit is {10 * MIB}",
    )
