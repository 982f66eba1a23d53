"""The tool of `bench.ray`, in a module that nodes can import."""

from toolfold import tool


@tool(read_only=True)
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x
