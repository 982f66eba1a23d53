"""A tool of the server's that fails for one tenant, as often as it takes to be left alone."""

from tests.hold.target import Target, run_programs

ITEM = 8
HONEST = "print(await fail(reason='') + 44)"


async def attack(target: Target) -> None:
    await run_programs(
        target, 2, "for _ in range(20):\n    try:\n        await fail()\n    except Exception:\n        pass"
    )
