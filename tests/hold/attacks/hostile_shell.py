"""Bash programs that fork, fill memory in several processes and the disk, leave processes behind and never stop printing."""

from tests.hold.target import Target, again_and_again

ITEM = 6
COUNTS_GUESTS = True
CONFIG = "execution: {languages: [python, bash]}"
PROGRAMS = (
    "bomb() { bomb | bomb & }; bomb; wait; sleep 60",
    "for i in 1 2 3 4; do head -c 300M /dev/zero | tail -c 299M | sleep 60 & done; wait",
    "yes > filled; for ((i = 0; ; i++)); do : > $i || break; done; sleep 60",
    "for i in {1..30}; do (setsid sleep 300 &); done",
    "for i in {1..8}; do yes & done; wait",
)


async def attack(target: Target) -> None:
    async with target.client() as client:

        async def once(number: int) -> None:
            body = {"lang": "bash", "code": PROGRAMS[number], "tools": [], "timeout": 3000}
            response = await client.post("/exec/programmatic", json=body)
            assert response.status_code != 400, response.text

        await again_and_again(len(PROGRAMS), once)
