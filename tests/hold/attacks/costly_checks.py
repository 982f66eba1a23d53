"""Texts that take seconds to check, while an honest tenant sends programs that are checked in the same processes."""

from tests.hold.target import Target, run_programs

ITEM = 15
HONEST = (
    "".join(f"row_{n} = {{'name': 'item {n}', 'value': {n} * 2}}\n" for n in range(800)) + "print(sum(range(10)))\n"
)


async def attack(target: Target) -> None:
    await run_programs(target, 12, "print(1)\n" * 60_000 + "prnt(1)")
