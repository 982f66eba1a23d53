"""A server made with the SDK: both eras, stdio or HTTP.

python sdk_server.py [--http PORT | --sse PORT]
"""

import argparse
import asyncio
from typing import Annotated

import mcp_types as types
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ElicitationResult, Resolve
from pydantic import BaseModel

server = MCPServer("sdk", instructions="A server for tests.")


class Person(BaseModel):
    name: str


class Sum(BaseModel):
    total: int
    of: list[int]


@server.tool(annotations=types.ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


@server.tool()
def total(numbers: list[int]) -> Sum:
    """The sum of many numbers."""
    return Sum(total=sum(numbers), of=numbers)


@server.tool()
def json_text() -> str:
    """JSON in a text."""
    return '{"rows": [1, 2]}'


@server.tool()
def fail(text: str) -> str:
    """Always fails."""
    raise ValueError(text)


@server.tool()
def large(size: int) -> str:
    """A text of so many letters."""
    return "x" * size


@server.tool(structured_output=False)
def picture() -> list:
    """Text and an image."""
    return ["a red dot", Image(data=b"\x89PNG red", format="png")]


async def ask_for_a_name() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


@server.tool()
async def greet(person: Annotated[ElicitationResult[Person], Resolve(ask_for_a_name)]) -> str:
    """Asks who you are."""
    return f"hello {person.data.name}" if person.action == "accept" else f"you said {person.action}"


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool."""

    def grown() -> str:
        return "I am new"

    server.add_tool(grown, name="grown", description="A tool that came later.")
    await ctx.notify_tools_changed()
    if ctx.protocol_version < "2026":
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Reports progress."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return "counted"


@server.resource("memo://one")
def one() -> str:
    """A memo."""
    return "the first memo"


@server.prompt()
def welcome(who: str) -> str:
    """A prompt."""
    return f"Welcome {who}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--http", type=int)
    parser.add_argument("--sse", type=int)
    chosen = parser.parse_args()
    if chosen.http:
        server.run("streamable-http", port=chosen.http)
    elif chosen.sse:
        server.run("sse", port=chosen.sse)
    else:
        server.run("stdio")
