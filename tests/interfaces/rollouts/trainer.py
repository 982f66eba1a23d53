"""A trainer in a process of its own, to be killed: `python -m tests.interfaces.rollouts.trainer ISOLATION`.

Says `rolling` once all of its environments have programs in flight.
"""

import asyncio
import sys

import toolfold
from toolfold import Outcome, Runtime
from toolfold.rollouts import Situation, Task, roll_out

ENVIRONMENTS = 6


def never(outcome: Outcome) -> float | None:
    return None


async def main(isolation: str) -> None:
    hanging = 0

    @toolfold.tool
    async def hang() -> None:
        """Does not answer."""
        nonlocal hanging
        hanging += 1
        if hanging == ENVIRONMENTS:
            print("rolling", flush=True)
        await asyncio.Event().wait()

    async def policy(situation: Situation) -> str:
        return "open('kept.txt', 'w').write('x')" if not situation.turns else "await hang()"

    tasks = [Task(prompt="go", judge=never) for _ in range(ENVIRONMENTS)]
    options = {"isolation": isolation}
    async with Runtime([hang], engine="process", engine_options=options) as runtime:
        async for _ in roll_out(runtime, tasks, policy, turns=3, seed=1, in_flight=ENVIRONMENTS, keep_names=True):
            pass


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
