"""Requests as a page in a browser on this machine would make them, to a server without keys: none may run a program."""

import httpx

from tests.hold.target import Target, again_and_again

ITEM = 2
IS_OPEN = True
PAGES = (
    {"Host": "127.evil.example"},
    {"Host": "127.0.0.1.nip.io"},
    {"Origin": "http://127.evil.example"},
    {"Content-Type": "text/plain"},
)


async def attack(target: Target) -> None:
    async with httpx.AsyncClient(base_url=target.url, timeout=60) as client:

        async def once(number: int) -> None:
            headers = {"Content-Type": "application/json", **PAGES[number % len(PAGES)]}
            answer = await client.post("/exec", content=b'{"code": "print(1)"}', headers=headers)
            if answer.status_code not in (403, 415):
                raise SystemExit(f"{headers} was answered with {answer.status_code}")

        await again_and_again(4, once)
