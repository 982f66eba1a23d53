"""A company in memory. Its replies are bulky, as replies of real systems are."""

import asyncio
import random
from typing import Any

import toolfold

_TEAMS = {"sales": 18_500, "engineering": 19_000, "support": 16_000, "research": 21_000}
_CATEGORIES = ("travel", "software", "meals", "hardware", "training")


@toolfold.tool(read_only=True)
async def list_people(team: str) -> list[dict[str, Any]]:
    """People of one team, with their profile."""
    await asyncio.sleep(0.02)
    return [
        {
            "id": f"{team[:3]}-{number:02}",
            "name": f"{team.title()} {number}",
            "team": team,
            "profile": {"floor": number % 7, "badge": number * 7919, "bio": f"Joined {team} as number {number}. " * 8},
        }
        for number in range(1, 14)
    ]


@toolfold.tool(read_only=True)
async def get_expenses(person_id: str, quarter: int) -> list[dict[str, Any]]:
    """Every expense of one person in one quarter, with its receipt."""
    chance = random.Random(f"{person_id}/{quarter}")
    await asyncio.sleep(chance.uniform(0.03, 0.12))
    return [
        {
            "person_id": person_id,
            "quarter": quarter,
            "category": chance.choice(_CATEGORIES),
            "amount": round(chance.uniform(8, 110), 2),
            "receipt": {"number": chance.randrange(10**9), "scan": f"{chance.getrandbits(1600):0400x}"},
        }
        for _ in range(chance.randrange(12, 40))
    ]


@toolfold.tool(read_only=True)
def get_budget(team: str, quarter: int) -> dict[str, Any]:
    """What one team may spend in one quarter."""
    return {"team": team, "quarter": quarter, "amount": _TEAMS[team] + 500 * quarter}
