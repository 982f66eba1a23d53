"""Three ways to add a tool: a worker, a function, an A2A agent: `python examples/adding_new_tools`.

Each is two steps: define it in the catalog, and register what serves it. An agent is served by its
endpoint; the one here runs on this machine, made with `a2a-sdk`, and stops with the example.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from starlette.applications import Starlette

from toolfold.orchestrator import (
    ProgrammaticToolExecutor,
    ToolCatalog,
    ToolDefinition,
    ToolParameter,
    function_map,
    tool_map,
)

PROGRAM = """
from tools.weather import get_forecast
from tools.text import shorten
from tools.agents import ask_translator
import asyncio

cities = ["Oslo", "Rome", "Cairo"]
forecasts = await asyncio.gather(*[get_forecast(city=city) for city in cities])
warmest = max(forecasts, key=lambda forecast: forecast["degrees"])
line = await shorten(text=f"Warmest is {warmest['city']} with {warmest['degrees']} degrees today", width=24)
print(line)
print(await ask_translator(message=line))
"""


# 1. A worker: one payload in, any value out; async or not.
async def get_forecast_worker(payload: dict[str, Any]) -> dict[str, Any]:
    """The worker of `get_forecast`."""
    return {"city": payload["city"], "degrees": {"Oslo": 4, "Rome": 17, "Cairo": 26}[payload["city"]]}


# 2. A function: its arguments by name.
def shorten(text: str, width: int) -> str:
    """The function of the tool of that name."""
    return text if len(text) <= width else f"{text[:width].rstrip()}…"


# 3. An agent: any A2A endpoint; this one spells words backwards.
class Translator(AgentExecutor):
    """An A2A agent of the simplest kind: one message in, one message out."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer one message."""
        words = context.get_user_input().split()
        await event_queue.enqueue_event(new_text_message(" ".join(word[::-1] for word in words)))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing runs long enough to be cancelled."""


@asynccontextmanager
async def serving_translator() -> AsyncIterator[str]:
    """The agent on a free port of this machine; gives its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        card = AgentCard(
            name="translator",
            description="Spells words backwards.",
            version="1.0",
            supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
            capabilities=AgentCapabilities(),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="backwards", name="backwards", description="Spells backwards.", tags=["text"])],
        )
        handler = DefaultRequestHandler(agent_executor=Translator(), task_store=InMemoryTaskStore(), agent_card=card)
        app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield url
        finally:
            server.should_exit = True
            await running


def make_catalog(translator_url: str) -> ToolCatalog:
    """What programs may call."""
    catalog = ToolCatalog(source="demo", version="1.0")
    catalog.add_tool(
        ToolDefinition(
            name="get_forecast",
            type="mcp",
            domain="weather",
            parameters=[ToolParameter(name="city", type="string", required=True)],
        )
    )
    catalog.add_tool(
        ToolDefinition(
            name="shorten",
            type="function",
            domain="text",
            parameters=[
                ToolParameter(name="text", type="string", required=True),
                ToolParameter(name="width", type="integer", required=True),
            ],
        )
    )
    # Without parameters an agent takes one: `message`.
    catalog.add_tool(ToolDefinition(name="ask_translator", type="agent", domain="agents", url=translator_url))
    return catalog


async def main() -> None:
    """Register, define, run."""
    tool_map["get_forecast"] = get_forecast_worker
    function_map["shorten"] = shorten

    async with serving_translator() as url, ProgrammaticToolExecutor(make_catalog(url)) as executor:
        result = await executor.execute(PROGRAM)

    print(result["output"], end="")
    print(f"-- {len(result['tool_calls'])} tool calls, error: {result['error']}")


if __name__ == "__main__":
    asyncio.run(main())
