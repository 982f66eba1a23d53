"""Programs of almost 1 MiB that take seconds to check."""

from tests.hold.target import Target, run_programs

ITEM = 5


async def attack(target: Target) -> None:
    await run_programs(target, 2, "x = 1\n" + "x = (x + 1)\n" * 80_000)
