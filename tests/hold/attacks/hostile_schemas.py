"""Definitions of a client's tools whose schemas double with each level."""

from tests.hold.schemas import doubling
from tests.hold.target import Target, run_programs

ITEM = 4


async def attack(target: Target) -> None:
    tools = [{"name": f"tool_{number}", "parameters": doubling(30)} for number in range(20)]
    await run_programs(target, 4, "await tool_1(x=[[[0.5]]])", tools=tools)
