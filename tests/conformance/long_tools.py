"""What the suite's scenarios of the tasks extension expect: tools that run a program of the interface's, which yields at once.

The tasks are the interface's own; only the programs are made for the suite.
"""

from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from toolfold.interfaces.mcp.client_program import CURRENT
from toolfold.interfaces.mcp.program_tasks import TASKS, has_tasks
from toolfold.interfaces.mcp.server import McpServer

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
MISSING_CAPABILITY = -32021
AT_ONCE = 0.2
FIRST_ASK = 30.0
NAMES = (
    "greet", "slow_compute", "failing_job", "protocol_error_job", "confirm_delete", "multi_input",
    "test_tool_with_task",
)  # fmt: skip
PROGRAMS = {
    "failing_job": "await asyncio.sleep(1)\nraise ValueError('it always fails')",
    "protocol_error_job": "await asyncio.sleep(0.5)\nawait break_down()",
    "confirm_delete": "await asyncio.sleep(0.5)\nprint(await ask_person(message='Delete it?', key='confirm'))",
    "multi_input": (
        "await asyncio.sleep(0.5)\n"
        "print(await asyncio.gather(*(ask_person(message=f'{key}?', key=key) for key in ('name', 'confirm'))))"
    ),
    "test_tool_with_task": (
        "name = await ask_person(message='Who are you?', key='name')\nawait asyncio.sleep(1)\nprint('Hello,', name)"
    ),
}


async def ask_person(message: str, key: str) -> Any:
    """Elicit one value in the middle of a call."""
    running = CURRENT.get()
    assert running is not None
    kind = "boolean" if key == "confirm" else "string"
    schema = {"type": "object", "properties": {key: {"type": kind}}, "required": [key]}
    form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    answer = await running.ask_within_a_call(form, server="")
    return (answer.content or {}).get(key)


async def break_down() -> None:
    """The host of the program stops."""
    running = CURRENT.get()
    assert running is not None
    running._runtime.executions.suspend(running.execution_id)


async def call(mcp_server: McpServer, context: Context, params: Params) -> Any:
    """One of `NAMES`."""
    arguments = params.arguments or {}
    match params.name:
        case "greet":
            return types.CallToolResult(content=[types.TextContent(text=f"Hello, {arguments.get('name')}!")])
        case "slow_compute":
            return await _program(
                mcp_server, context, params, f"await asyncio.sleep({float(arguments['seconds'])})\nprint('ok')"
            )
        case "failing_job" if not has_tasks(context):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise MCPError(MISSING_CAPABILITY, "Missing required client capability", data=needed)
    # The question comes first, and the answer makes it a task.
    is_first_ask = params.name == "test_tool_with_task" and params.request_state is None
    after = FIRST_ASK if is_first_ask else AT_ONCE
    return await _program(mcp_server, context, params, PROGRAMS[params.name], after)


async def _program(mcp_server: McpServer, context: Context, params: Params, code: str, after: float = AT_ONCE) -> Any:
    yields = {"yield_after_seconds": after} if has_tasks(context) else {}
    asked = params.model_copy(update={"name": "execute_program", "arguments": {"code": code, **yields}})
    return await mcp_server._call_tool(context, asked)
