"""The interface of `line_interface.py` on stdin and stdout: `python -m examples.interface`.

Type, for instance:

{"program": "await pay(to=await whom(), amount=7)", "tools": ["whom"]}
{"replies": {"1": "ann"}}
{"decisions": {"2": true}}
"""

import asyncio
import sys

from examples.interface.line_interface import LineInterface
from toolfold import Policy, Runtime, tool


@tool
async def pay(to: str, amount: float) -> str:
    """Send money."""
    return f"{amount:g} to {to}"


async def main() -> None:
    """Serve until stdin ends."""
    async with Runtime([pay], policy=Policy(ask=["pay"])) as runtime:
        await LineInterface(runtime, lambda: asyncio.to_thread(sys.stdin.readline), sys.stdout.write).serve()


if __name__ == "__main__":
    asyncio.run(main())
