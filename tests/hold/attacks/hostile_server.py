"""A bridged server whose tool has a schema that doubles with each level, and programs that call it."""

import json
import sys
from pathlib import Path

from tests.hold.schemas import doubling
from tests.hold.target import Target, run_programs

ITEM = 4
CONTROL = None
_SERVER = str(Path(__file__).parents[2] / "sources/mcp/raw_server.py")
SERVERS = [
    {
        "name": "evil",
        "command": sys.executable,
        "args": [_SERVER, "--names", "wide", "--schema", json.dumps(doubling(30))],
    }
]


async def attack(target: Target) -> None:
    await run_programs(target, 2, "await mcp__evil__wide(x=[[[0.5]]])")
