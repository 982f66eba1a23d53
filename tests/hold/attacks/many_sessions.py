"""Uploads into one new session after another, to fill the disk that all tenants share."""

from tests.hold.target import Target, again_and_again

ITEM = 8
_MEGABYTES = 20
CONFIG = f"sessions: {{max_tenant_bytes: {_MEGABYTES}MB}}"


async def attack(target: Target) -> None:
    kept = 0
    async with target.client() as client:

        async def once(_: int) -> None:
            nonlocal kept
            answer = await client.post("/upload", files={"file": ("a.bin", b"x" * 1_000_000)})
            kept += answer.status_code == 200
            if kept > _MEGABYTES:
                raise SystemExit(f"{kept} MB are kept")

        await again_and_again(20, once)
