"""A tool that a test holds open, for programs that must still run while it looks at them."""

import asyncio
from typing import Any

from toolfold import tool


class Gate:
    """A tool that returns when the test says so."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()
        self.left = 0
        """Calls that were cancelled."""

    # Any: what `tool` makes of a function.
    def tool(self) -> Any:
        @tool(read_only=True)
        async def gate() -> str:
            """Wait."""
            self.entered.set()
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.left += 1
                raise
            return "open"

        return gate
