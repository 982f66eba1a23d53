"""Programs that call a tool of the server's with arguments as large as allowed, again and again."""

from tests.hold.target import Target, run_programs

ITEM = 3


async def attack(target: Target) -> None:
    code = "text = 'x' * 9_000_000\nfor _ in range(1000):\n    try:\n        await fail(reason=text)\n    except Exception:\n        pass"
    await run_programs(target, 2, code)
