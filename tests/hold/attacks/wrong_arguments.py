"""Calls with arguments that fit neither of two types, in every one of their items."""

from tests.hold.target import Target, run_programs

ITEM = 3


async def attack(target: Target) -> None:
    code = "wrong = [0.5] * 16_000\nfor _ in range(50):\n    try:\n        await weigh(values=wrong)\n    except Exception:\n        pass"
    await run_programs(target, 2, code)
