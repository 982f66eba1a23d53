"""What the door says of itself to a model: tool descriptions, schemas, instructions. Pure text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from toolfold.doors.mcp.budget import CHARACTERS, OLDER_CHARACTERS, fitting, tool_listing, width
from toolfold.models import Json, ToolSpec

ENTRY_NAME: Final = "execute_program"
SEARCH_NAME: Final = "search_tools"

DESCRIPTION: Final = (
    "Execute a Python program with access to MCP tools as async functions. Tool calls within the script are "
    "dispatched to their respective MCP servers. Only stdout (from print statements) is returned — intermediate "
    "tool results do not enter the conversation context. Use this when a task involves 3+ tool calls, loops, "
    "filtering, aggregation, or conditional logic based on intermediate results. For single tool calls, call the "
    "tool directly. All tool functions require `await`."
)
_CODE: Final = (
    "Python code to execute. MCP tools are available as async functions using their namespaced names (e.g., "
    "mcp__financial_data__query_financials). Use `await` for all tool calls. Use `print()` to produce output."
)
_RULES: Final = """\
Each program starts fresh; give `session` a name to keep variables and files for the next program with that name. \
`await` works at the top level; run independent calls at once with `await asyncio.gather(...)`. Tools return Python \
values (dict, list, str, ...); a failing tool raises `ToolError`, which the program may catch. The sandbox has no \
network and no host files: tools are the only way out. Files that the program writes to its working directory come \
back as links, pictures as images."""

_FENCED: Final = "```python\n{}\n```"
_NOT_ALL: Final = (
    f"Not every signature fits here: find the others with `{SEARCH_NAME}`, or inside a program with "
    f'`print(await {SEARCH_NAME}("what you need"))`.'
)

_CONNECTING: Final = f"Servers that are connecting have tools that are not listed here: `{SEARCH_NAME}` waits for them."

_INSTRUCTIONS: Final = """\
`execute_program` runs a Python program that calls many tools and returns only what it prints. Prefer it to single \
tool calls whenever you would call three tools or more, loop over items, filter or combine results, or look at large \
results of which you need little: what tools return stays inside the program and costs no context.

How to write a program:
- Call tools with `await` and keyword arguments: `rows = await mcp__server__tool(name="x")`. The signatures are in \
the description of `execute_program`; `search_tools` finds those that are not.
- Independent calls run at once: `a, b = await asyncio.gather(tool(x=1), tool(x=2))`.
- Tools return Python values. Do not parse JSON again; look at a small part first (`print(rows[0])`) if you do not \
know the shape.
- Print only what you need to answer. Aggregate, filter and cut inside the program.
- A failing tool raises `ToolError`; catch it where one failure must not end the whole program.
- numpy, pandas, matplotlib and sympy can be imported where they are installed. There is no network and no host \
file system; save files to the working directory to hand them over.
- Names do not live on between programs unless you give the same `session` each time.

If a program is rejected, nothing was called: correct it and send it again. If it failed in the middle, calls before \
the failing line have happened: do not repeat those that change something."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One server, as the description tells of it."""

    name: str
    state: str
    """`connecting`, `ready` or `failed`."""
    tools: int = 0


def instructions(servers: Sequence[str]) -> str:
    """What the client tells the model of this server, within the length that every version of Claude Code keeps."""
    if not servers:
        return _INSTRUCTIONS
    text = f"{_INSTRUCTIONS}\n\nBridged MCP servers: "
    names = fitting(servers, OLDER_CHARACTERS - width(text) - len("…"), between=2)
    return text + ", ".join([*names, "…"] if len(names) < len(servers) else names)


def program_description(
    servers: Sequence[Listed], local_tools: int, specs: Sequence[ToolSpec], *, max_characters: int = CHARACTERS
) -> tuple[str, bool]:
    """Of `execute_program`: what it is for, the rules, what there is to call; and whether that is all of it."""
    parts = [DESCRIPTION, _RULES]
    lines = [_line(server) for server in servers]
    if local_tools:
        lines.append(f"- tools of this host: {_count(local_tools)}")
    if lines:
        parts.append(_available(lines, (max_characters - width("".join(parts))) // 2))
    is_late = any(server.state == "connecting" and not server.tools for server in servers)
    last = [_CONNECTING] if is_late else []
    is_all = True
    if specs:
        room = max_characters - width("\n\n".join([*parts, _FENCED.format(""), _NOT_ALL, *last]))
        text, is_all = tool_listing(specs, room)
        parts.append(_FENCED.format(text.rstrip()))
    parts += last if is_all else [_NOT_ALL, *last]
    return "\n\n".join(parts), is_all


def _available(lines: Sequence[str], room: int) -> str:
    head = "Available in programs:"
    shown = fitting(lines, room - len(head) - len("\n- and 1000000 more servers"), between=1)
    more = [f"- and {len(lines) - len(shown)} more servers"] if len(shown) < len(lines) else []
    return "\n".join([head, *shown, *more])


def _line(server: Listed) -> str:
    match server.state:
        case "ready":
            said = _count(server.tools)
        case "connecting" if server.tools:
            said = f"{_count(server.tools)} when last connected; connecting now"
        case "connecting":
            said = "connecting"
        case _:
            said = "not reachable now"
    return f"- {server.name}: {said}"


def _count(tools: int) -> str:
    return f"{tools} tool" if tools == 1 else f"{tools} tools"


def program_schema(max_seconds: float) -> dict[str, Json]:
    """Of the arguments of `execute_program`."""
    return {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": _CODE},
            "session": {
                "type": "string",
                "minLength": 1,
                "maxLength": 100,
                "description": "Keeps variables and files between programs that give the same name. "
                "Without it nothing is kept.",
            },
            "timeout_seconds": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": max_seconds,
                "description": f"Stop the program after this time; {max_seconds:g} if not given.",
            },
        },
        "required": ["code"],
    }


SEARCH_DESCRIPTION: Final = (
    "Find tools that programs of `execute_program` can call, by what they do. Returns their Python signatures."
)

# Any: a JSON Schema.
SEARCH_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What is needed, in a few words, or a part of a name."},
        "detail": {
            "type": "string",
            "enum": ["name", "signature", "full"],
            "default": "signature",
            "description": "How much of each tool: its first line, also its signature, also its schemas.",
        },
    },
    "required": ["query"],
}
