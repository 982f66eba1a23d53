"""Programs whose value is as many empty lists as fit."""

from tests.hold.target import Target, run_programs

ITEM = 3
CONTROL = None


async def attack(target: Target) -> None:
    await run_programs(target, 2, "[[] for _ in range(3_000_000)]")
