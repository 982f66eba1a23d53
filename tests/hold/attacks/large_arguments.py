"""Programs that call a tool of the server's with arguments as large as allowed, again and again."""

from tests.hold.target import Target, run_programs

ITEM = 3
_CODE = """
text, numbers = "x" * 9_000_000, [0] * 900_000
for number in range(1000):
    try:
        await fail(reason=numbers if number % 10 else text)
    except Exception:
        pass
"""


async def attack(target: Target) -> None:
    await run_programs(target, 2, _CODE)
