"""The whole corpus in one process, as whoever runs it; verdicts as JSON on stdout. See `unprivileged`."""

from __future__ import annotations

import asyncio
import json

from tests.escapes_support.attack import HOST_SIDE, LINEAGE, load_attacks
from tests.escapes_support.corpus import Corpus
from toolfold.engines.process.zygote_launch import NAMESPACE


async def _verdicts() -> dict[str, str]:
    """`held`, or what went wrong; a control that cannot work for this user counts as held."""
    found: dict[str, str] = {}
    async with Corpus() as corpus:
        for attack in load_attacks():
            seen = await corpus.attack(attack, NAMESPACE)
            found[attack.name] = "reached" if seen.reaches(attack) else seen.error or "held"
            # What the host does with bytes does not depend on its user.
            if found[attack.name] != "held" or attack.stopped_by & (HOST_SIDE | LINEAGE):
                continue
            if not (await corpus.control(attack)).reaches(attack) and not corpus.why_unproven(attack):
                found[attack.name] = "the control did not reach its aim"
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_verdicts())))
