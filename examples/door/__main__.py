"""The door of `door.py` on stdin and stdout: `python -m examples.door`.

Type, for instance:

{"program": "await pay(to=await whom(), amount=7)", "tools": ["whom"]}
{"replies": {"1": "ann"}}
{"decisions": {"2": true}}
"""

import asyncio
import sys

from examples.door.door import LineDoor
from toolfold import Runtime, tool
from toolfold.tools.policy import Policy


@tool
async def pay(to: str, amount: float) -> str:
    """Send money."""
    return f"{amount:g} to {to}"


async def main() -> None:
    """Serve until stdin ends."""
    async with Runtime([pay], policy=Policy(ask=["pay"])) as runtime:
        await LineDoor(runtime, lambda: asyncio.to_thread(sys.stdin.readline), sys.stdout.write).serve()


if __name__ == "__main__":
    asyncio.run(main())
