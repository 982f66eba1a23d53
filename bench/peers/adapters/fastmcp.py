"""FastMCP's `CodeMode`, in process: a server with that transform, asked without a transport in between.

Its programs call `call_tool(name, arguments)`, so a program here begins with one small function for
each tool that it uses. What they print goes to the server's own output: only the result comes back.
"""

import inspect
import json
import re
from typing import Any, Self

from fastmcp import FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode, MontySandboxProvider

from bench.peers.adapters.base import Adapter, Ran

LIMITS = {"max_feed_duration_secs": 10.0, "max_memory": 1_000_000_000, "max_suspensions": 100_000}


class FastMcp(Adapter):
    async def __aenter__(self) -> Self:
        mode = CodeMode(sandbox_provider=MontySandboxProvider(limits=LIMITS), max_tool_calls=None)
        self._server = FastMCP("bench", transforms=[mode])
        for tool in self.tools.values():
            self._server.tool(tool)
        return self

    def spell(self, text: str) -> str:
        used = [tool for name, tool in self.tools.items() if re.search(rf"\b{name}\b", text)]
        return "".join(map(_wrapper, used)) + text

    async def run(self, text: str) -> Ran:
        result = await self._server.call_tool("execute", {"code": text})
        return Ran(_value("".join(part.text for part in result.content)))


def _value(text: str) -> Any:
    """Of a result that it does not know the type of, it gives the text: JSON, or the string itself."""
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


def _wrapper(tool: Any) -> str:
    parameters = inspect.signature(tool).parameters.values()
    signature = ", ".join(one.name if one.default is one.empty else f"{one.name}={one.default!r}" for one in parameters)
    arguments = ", ".join(f"'{one.name}': {one.name}" for one in parameters)
    call = f"await call_tool('{tool.__name__}', {{{arguments}}})"
    # A reply that is an object comes as it is; any other is the one field of an object.
    reply = call if inspect.signature(tool).return_annotation is dict else f"({call})['result']"
    return f"async def {tool.__name__}({signature}):\n    return {reply}\n"
