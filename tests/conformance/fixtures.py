"""What the conformance suite expects a server to have, added to the interface: tools, resources, prompts.

The transport, the middleware, the handshake, the listening and everything `execute_program` needs
are the interface's own; only the handlers here are made for the suite, which names them.
"""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.conformance import long_tools
from toolfold.interfaces.mcp.client_sessions import is_legacy
from toolfold.interfaces.mcp.server import McpServer

Context = ServerRequestContext[Any, Any]
Params = types.CallToolRequestParams
Result = types.CallToolResult | types.InputRequiredResult

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
MISSING_CAPABILITY = -32021

TOOLS: dict[str, Callable[[Context, Params], Awaitable[Result]]] = {}
SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_custom_headers": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
}


def tool(function):
    TOOLS[function.__name__] = function
    return function


def said(*parts: Any, **fields: Any) -> types.CallToolResult:
    content = [types.TextContent(text=part) if isinstance(part, str) else part for part in parts]
    return types.CallToolResult(content=content, **fields)


def embedded(uri: str, text: str, mime: str = "text/plain") -> types.EmbeddedResource:
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type=mime, text=text))


def form(message: str, **properties: Any) -> types.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(text: str) -> types.CreateMessageRequest:
    message = types.SamplingMessage(role="user", content=types.TextContent(text=text))
    return types.CreateMessageRequest(params=types.CreateMessageRequestParams(messages=[message], max_tokens=100))


def asked(state: str | None = None, **requests: Any) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests, request_state=state)


# --- content --------------------------------------------------------------------------------


@tool
async def test_simple_text(context: Context, params: Params) -> Result:
    return said("This is a simple text response for testing.")


@tool
async def test_image_content(context: Context, params: Params) -> Result:
    return said(types.ImageContent(data=PNG, mime_type="image/png"))


@tool
async def test_audio_content(context: Context, params: Params) -> Result:
    return said(types.AudioContent(data=WAV, mime_type="audio/wav"))


@tool
async def test_embedded_resource(context: Context, params: Params) -> Result:
    return said(embedded("test://embedded-resource", "This is an embedded resource content."))


@tool
async def test_multiple_content_types(context: Context, params: Params) -> Result:
    mixed = embedded("test://mixed-content-resource", '{"test": "data", "value": 123}', "application/json")
    return said("Multiple content types test:", types.ImageContent(data=PNG, mime_type="image/png"), mixed)


@tool
async def test_error_handling(context: Context, params: Params) -> Result:
    return said("This tool intentionally returns an error for testing", is_error=True)


@tool
async def json_schema_2020_12_tool(context: Context, params: Params) -> Result:
    return said("fits")


@tool
async def test_custom_headers(context: Context, params: Params) -> Result:
    return said("the header says what the argument says")


# --- while a call runs ----------------------------------------------------------------------


async def log(context: Context, text: str) -> None:
    """Only where it is asked for: the newer era opts in with each request."""
    if is_legacy(context):
        params = types.LoggingMessageNotificationParams(level="info", data=text)
        await context.session.send_notification(
            types.LoggingMessageNotification(params=params), related_request_id=context.request_id
        )


@tool
async def test_tool_with_logging(context: Context, params: Params) -> Result:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await log(context, text)
        await asyncio.sleep(0.05)
    return said("logged")


TOOLS["test_logging_tool"] = test_tool_with_logging


@tool
async def test_tool_with_progress(context: Context, params: Params) -> Result:
    for done in (0, 50, 100):
        await context.session.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return said("done")


@tool
async def test_reconnection(context: Context, params: Params) -> Result:
    if context.close_sse_stream is not None:
        await context.close_sse_stream()
    await asyncio.sleep(0.2)
    return said("Reconnection test completed")


@tool
async def test_missing_capability(context: Context, params: Params) -> Result:
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        data = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_CAPABILITY, "Missing required client capability", data=data)
    return said("sampling is there")


# --- questions in the older era -------------------------------------------------------------


async def elicited(context: Context, message: str, **properties: Any) -> str:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    result = await context.session.elicit_form(message, schema, context.request_id)
    return f"action={result.action}, content={json.dumps(result.content or {})}"


@tool
async def test_sampling(context: Context, params: Params) -> Result:
    request = sample(str((params.arguments or {}).get("prompt", "")))
    result = await context.session.send_request(request, types.CreateMessageResult)
    return said(f"LLM response: {getattr(result.content, 'text', '')}")


@tool
async def test_elicitation(context: Context, params: Params) -> Result:
    message = str((params.arguments or {}).get("message", "Your response?"))
    return said(f"User response: {await elicited(context, message, response={'type': 'string'})}")


@tool
async def test_elicitation_sep1034_defaults(context: Context, params: Params) -> Result:
    text = await elicited(
        context,
        "Please provide user information",
        name={"type": "string", "default": "John Doe"},
        age={"type": "integer", "default": 30},
        score={"type": "number", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "default": True},
    )
    return said(f"Elicitation completed: {text}")


@tool
async def test_elicitation_sep1330_enums(context: Context, params: Params) -> Result:
    values, titles = ["option1", "option2", "option3"], ["First", "Second", "Third"]
    titled = [{"const": f"value{at}", "title": title} for at, title in enumerate(titles, 1)]
    text = await elicited(
        context,
        "Please choose",
        untitledSingle={"type": "string", "enum": values},
        titledSingle={"type": "string", "oneOf": titled},
        legacyEnum={"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": titles},
        untitledMulti={"type": "array", "items": {"type": "string", "enum": values}},
        titledMulti={"type": "array", "items": {"anyOf": titled}},
    )
    return said(f"Elicitation completed: {text}")


# --- questions in the newer era -------------------------------------------------------------


@tool
async def test_input_required_result_elicitation(context: Context, params: Params) -> Result:
    answer = (params.input_responses or {}).get("user_name")
    if not isinstance(answer, types.ElicitResult):
        return asked(user_name=form("What is your name?", name={"type": "string"}))
    return said(f"Hello, {(answer.content or {}).get('name')}!")


TOOLS["test_streaming_elicitation"] = test_input_required_result_elicitation


@tool
async def test_input_required_result_sampling(context: Context, params: Params) -> Result:
    answer = (params.input_responses or {}).get("capital_question")
    if answer is None:
        return asked(capital_question=sample("What is the capital of France?"))
    return said(f"The model said {getattr(answer, 'content', answer)}")


@tool
async def test_input_required_result_list_roots(context: Context, params: Params) -> Result:
    answer = (params.input_responses or {}).get("client_roots")
    if not isinstance(answer, types.ListRootsResult):
        return asked(client_roots=types.ListRootsRequest())
    return said(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}")


@tool
async def test_input_required_result_request_state(context: Context, params: Params) -> Result:
    if params.request_state is None:
        return asked("round 1", confirm=form("Please confirm", ok={"type": "boolean"}))
    return said("state-ok")


TOOLS["test_input_required_result_tampered_state"] = test_input_required_result_request_state


@tool
async def test_input_required_result_multiple_inputs(context: Context, params: Params) -> Result:
    wanted = {
        "user_name": form("What is your name?", name={"type": "string"}),
        "greeting": sample("Generate a greeting"),
        "client_roots": types.ListRootsRequest(),
    }
    if params.request_state is None or not wanted.keys() <= (params.input_responses or {}).keys():
        return asked("round 1", **wanted)
    return said("all three came")


@tool
async def test_input_required_result_multi_round(context: Context, params: Params) -> Result:
    match params.request_state:
        case None:
            return asked("round 1", step1=form("Step 1: What is your name?", name={"type": "string"}))
        case "round 1":
            return asked("round 2", step2=form("Step 2: What is your favorite color?", color={"type": "string"}))
    return said("three rounds")


@tool
async def test_input_required_result_capabilities(context: Context, params: Params) -> Result:
    capabilities = context.session.client_capabilities or types.ClientCapabilities()
    requests: dict[str, Any] = {}
    if capabilities.sampling is not None:
        requests["greeting"] = sample("Generate a greeting")
    if capabilities.elicitation is not None:
        requests["user_name"] = form("What is your name?", name={"type": "string"})
    return asked(**requests) if requests else said("nothing to ask with")


# --- the rest -------------------------------------------------------------------------------

TEXTS = {
    "test://static-text": "This is the content of the static text resource.",
    "test://watched-resource": "Watched resource content",
    "test://example-resource": "Example",
}
PROMPTS = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}


async def list_resources(context: Context, _: Any) -> types.ListResourcesResult:
    resources = [types.Resource(name=uri[7:], uri=uri, mime_type="text/plain") for uri in TEXTS]
    binary = types.Resource(name="static-binary", uri="test://static-binary", mime_type="image/png")
    return types.ListResourcesResult(resources=[*resources, binary])


async def list_templates(context: Context, _: Any) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(name="data", uri_template="test://template/{id}/data")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def list_prompts(context: Context, _: Any) -> types.ListPromptsResult:
    prompts = [
        types.Prompt(
            name=name, description=name, arguments=[types.PromptArgument(name=one, required=True) for one in arguments]
        )
        for name, arguments in PROMPTS.items()
    ]
    return types.ListPromptsResult(prompts=prompts)


async def get_prompt(
    context: Context, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    arguments = params.arguments or {}
    parts: list[Any]
    match params.name:
        case "test_simple_prompt":
            parts = [types.TextContent(text="This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            text = f"Prompt with arguments: arg1='{arguments.get('arg1')}', arg2='{arguments.get('arg2')}'"
            parts = [types.TextContent(text=text)]
        case "test_prompt_with_embedded_resource":
            parts = [embedded(arguments["resourceUri"], "Embedded resource content for testing.")]
        case "test_prompt_with_image":
            parts = [types.ImageContent(data=PNG, mime_type="image/png")]
        case "test_input_required_result_prompt":
            if not params.input_responses:
                return asked(user_context=form("What context should the prompt use?", context={"type": "string"}))
            parts = [types.TextContent(text="with context")]
        case _:
            raise MCPError(types.INVALID_PARAMS, f"no prompt {params.name!r}")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=part) for part in parts])


async def complete(context: Context, params: Any) -> types.CompleteResult:
    return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))


async def nothing(context: Context, params: Any) -> types.EmptyResult:
    return types.EmptyResult()


def add_fixtures(mcp_server: McpServer) -> None:
    """Before the interface's own handlers, which keep what is theirs."""
    server = mcp_server.server
    own_list, own_call = server.get_request_handler("tools/list"), server.get_request_handler("tools/call")
    own_read = server.get_request_handler("resources/read")
    assert own_list is not None
    assert own_call is not None
    assert own_read is not None

    async def list_tools(context: Context, params: Any) -> types.ListToolsResult:
        own = await own_list.handler(context, params)
        assert isinstance(own, types.ListToolsResult)
        plain = {"type": "object", "properties": {}}
        extra = [
            types.Tool(name=name, description=name, input_schema=SCHEMAS.get(name, plain))
            for name in (*TOOLS, *long_tools.NAMES, "test_trigger_tool_change", "test_trigger_prompt_change")
        ]
        return types.ListToolsResult(tools=[*own.tools, *extra])

    async def call_tool(context: Context, params: Params) -> Any:
        if params.name == "test_trigger_tool_change":
            await mcp_server._changes.publish(ToolsListChanged())
            return said("told")
        if params.name == "test_trigger_prompt_change":
            await mcp_server._changes.publish(PromptsListChanged())
            return said("told")
        if params.name in long_tools.NAMES:
            return await long_tools.call(mcp_server, context, params)
        handler = TOOLS.get(params.name)
        return await (own_call.handler(context, params) if handler is None else handler(context, params))

    async def read_resource(context: Context, params: types.ReadResourceRequestParams) -> Any:
        uri = str(params.uri)
        if uri == "test://static-binary":
            blob = types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PNG)
            return types.ReadResourceResult(contents=[blob])
        text = TEXTS.get(uri)
        if match := re.fullmatch(r"test://template/([^/]+)/data", uri):
            text = json.dumps({"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"})
        if text is None:
            return await own_read.handler(context, params)
        contents = types.TextResourceContents(uri=uri, mime_type="text/plain", text=text)
        return types.ReadResourceResult(contents=[contents])

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
    server.add_request_handler("resources/list", types.PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/templates/list", types.PaginatedRequestParams, list_templates)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    server.add_request_handler("prompts/list", types.PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
