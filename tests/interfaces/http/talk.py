"""Both halves of a conversation with the interface, as LibreChat's client has it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Weather of a city.", "parameters": CITY}
LIBRECHAT = {"User-Agent": "LibreChat/1.0"}


async def start(client: httpx.AsyncClient, code: str, *tools: Any, headers: Any = None, **body: Any) -> httpx.Response:
    request = {"code": code, "tools": list(tools) or [WEATHER], **body}
    return await client.post("/exec/programmatic", json=request, headers=headers)


def result(call: Mapping[str, Any] | str, value: Any) -> dict[str, Any]:
    call_id = call if isinstance(call, str) else call["id"]
    return {"call_id": call_id, "result": value, "is_error": False}


async def go_on(
    client: httpx.AsyncClient, token: str, *results: Any, headers: Any = None, **body: Any
) -> httpx.Response:
    request = {"continuation_token": token, "tool_results": list(results), **body}
    return await client.post("/exec/programmatic", json=request, headers=headers)


async def finish(
    client: httpx.AsyncClient, answer: httpx.Response | dict[str, Any], tool: Callable[..., Any], headers: Any = None
) -> tuple[dict[str, Any], int]:
    """Answer until the end; the last body and the number of rounds."""
    body, rounds = answer if isinstance(answer, dict) else answer.json(), 0
    while body["status"] == "tool_call_required":
        rounds += 1
        results = [result(call, tool(call["name"], call["input"])) for call in body["tool_calls"]]
        body = (await go_on(client, body["continuation_token"], *results, headers=headers)).json()
    return body, rounds


async def metric(client: httpx.AsyncClient, name: str) -> int:
    """A gauge or counter of `/metrics` that has no label."""
    lines = (await client.get("/metrics")).text.splitlines()
    return int(next(line for line in lines if line.startswith(f"toolfold_http_{name} ")).split()[1])


async def until(client: httpx.AsyncClient, name: str, value: int) -> None:
    """Returns when the metric has that value."""
    while await metric(client, name) != value:
        await asyncio.sleep(0.01)
