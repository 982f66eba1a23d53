"""Texts that a model reads before it writes a program: descriptions, schemas, instructions.

Every rule is said once, where every client shows it: in the description of `execute_program`. A test counts the
tokens of all of it.
"""

from __future__ import annotations

from typing import Final

from toolfold.errors import UsageError
from toolfold.interfaces.server.local_requests import is_loopback
from toolfold.models import Json

ENTRY_NAME: Final = "execute_program"
SEARCH_NAME: Final = "search_tools"
WAIT_NAME: Final = "wait_program"

INSTRUCTIONS: Final = f"Use `{ENTRY_NAME}` for several tool calls, loops or large replies."
DESCRIPTION: Final = """\
Run a Python program; only programs can call the tools below. Only what it prints comes back: replies cost no context. \
Do a whole task in one program, with loops, filters and `await asyncio.gather(...)` for independent calls. Replies are \
Python values; do not parse them. A failing tool raises `ToolError`. No network or host files; files it writes come \
back. After a failure, do not repeat calls that changed something."""
_CODE: Final = "Top-level `await` works."
_SESSION: Final = "Keeps variables and files by name."

SEARCH_DESCRIPTION: Final = "Find tools for programs by purpose; returns signatures."

SEARCH_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "detail": {"enum": ["name", "signature", "full"]}},
    "required": ["query"],
}

WAIT_DESCRIPTION: Final = "Wait for a running program or cancel it."
WAIT_SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"execution_id": {"type": "string"}, "cancel": {"type": "boolean"}},
    "required": ["execution_id"],
}

CONTRACT: Final = (
    "Execute a Python program with access to MCP tools as async functions. Tool calls within the script are "
    "dispatched to their respective MCP servers. Only stdout (from print statements) is returned — intermediate "
    "tool results do not enter the conversation context. Use this when a task involves 3+ tool calls, loops, "
    "filtering, aggregation, or conditional logic based on intermediate results. For single tool calls, call the "
    "tool directly. All tool functions require `await`."
)
"""The specification's own description, for hosts that list the same servers directly, too: `mcp.description`."""
_CONTRACT_CODE: Final = (
    "Python code to execute. MCP tools are available as async functions using their namespaced names (e.g., "
    "mcp__financial_data__query_financials). Use `await` for all tool calls. Use `print()` to produce output."
)


def program_schema(
    max_seconds: float, *, is_contract: bool = False, yields: bool = False, has_bash: bool = False
) -> dict[str, Json]:
    """Of the arguments of `execute_program`; `yields` where programs may answer before their end."""
    seconds = int(max_seconds) if max_seconds == int(max_seconds) else max_seconds
    return {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": _CONTRACT_CODE if is_contract else _CODE},
            "session": {"type": "string", "description": _SESSION},
            "timeout_seconds": {"type": "number", "maximum": seconds},
            **({"language": {"enum": ["python", "bash"]}} if has_bash else {}),
            **({"yield_after_seconds": {"type": "number"}} if yields else {}),
        },
        "required": ["code"],
    }


# ----------------------------------------------------------------------------------------------------
# Where `--http` listens, and whether that is safe; told before the SDK is loaded, so must not import it.

TOKEN_VARIABLE: Final = "TOOLFOLD_MCP_TOKEN"  # noqa: S105 - its name, not the secret


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `[::1]:PORT` or a bare port."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--http {text!r} is not an address; write HOST:PORT, as in 127.0.0.1:8765")
    return host, int(port)


def check_token_needed(host: str, port: int, *, token: str) -> None:
    """Only loopback may do without a token: whoever reaches the address could run programs."""
    if not token and not is_loopback(host):
        raise UsageError(f"--http {host}:{port} is reachable from outside; set {TOKEN_VARIABLE} to a secret first")
