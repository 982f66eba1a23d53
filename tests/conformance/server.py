"""The interface with the suite's fixtures, on loopback HTTP: `python -m tests.conformance.server PORT`."""

import asyncio
import sys

from tests.conformance.fixtures import add_fixtures
from tests.conformance.long_tools import ask_person, break_down
from toolfold.interfaces.mcp.client_sessions import Clients
from toolfold.interfaces.mcp.offered_tools import Offer
from toolfold.interfaces.mcp.server import McpServer
from toolfold.interfaces.mcp.server_setup import serve_http
from toolfold.runtime import Runtime, RuntimeSettings
from toolfold.sources.function_tools import as_tool


async def main() -> None:
    """Serve until a signal comes."""
    runtime = Runtime(settings=RuntimeSettings(entry_name="execute_program"))
    mcp_server = McpServer(
        runtime, Offer(runtime, local=[as_tool(ask_person), as_tool(break_down)]), clients=Clients(is_alone=False)
    )
    add_fixtures(mcp_server)
    await serve_http(mcp_server, "127.0.0.1", int(sys.argv[1]))


if __name__ == "__main__":
    asyncio.run(main())
