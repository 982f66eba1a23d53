"""Endless programs, started as reruns in the console."""

from tests.hold.target import Target, again_and_again

ITEM = 14
OPTIONS = ("--console",)


async def attack(target: Target) -> None:
    async with target.client() as client:
        await client.post("/exec/programmatic", json={"code": "print(1)", "tools": []})
        listed = (await client.get("/console/api/executions")).json()["executions"]
        path = f"/console/api/executions/{listed[0]['execution_id']}/rerun"

        async def once(_: int) -> None:
            await client.post(path, json={"text": "while True:\n    pass"})

        await again_and_again(40, once)
