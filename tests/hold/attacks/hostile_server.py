"""A bridged server whose tool has a schema that doubles with each level, and programs that call it."""

import sys
from pathlib import Path

from tests.hold.target import Target, again_and_again

ITEM = 4
HTTP = "tools: {hostile: ['*'], honest: ['*']}"
SERVERS = [{"name": "evil", "command": sys.executable, "args": [str(Path(__file__).parents[1] / "evil_server.py")]}]


async def attack(target: Target) -> None:
    nested = "[" * 15 + "0.5" + "]" * 15
    body = {"code": f"await mcp__evil__wide(x={nested})", "tools": [], "timeout": 5000}
    async with target.client() as client:

        async def once(_: int) -> None:
            answer = await client.post("/exec/programmatic", json=body)
            if "no tool" in answer.text:
                raise SystemExit("the server has no tool to attack with")

        await again_and_again(2, once)
