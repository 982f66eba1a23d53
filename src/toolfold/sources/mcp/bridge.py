"""Bridge from the MCP servers of a config to tools: their names, resources and prompts. Knows no interface."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import hashlib
import keyword
import logging
import re
import unicodedata
import webbrowser
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import mcp_types as types
import msgspec
from mcp.shared.dispatcher import ProgressFnT

from toolfold.errors import ToolFailed, UsageError
from toolfold.models import Json, Media, ToolSpec, Value
from toolfold.sources.mcp.connection import EraCache, McpConnection, Outer
from toolfold.sources.mcp.oauth import token_folder
from toolfold.sources.mcp.server_definition import ListingStore, Server, ServerStatus
from toolfold.sources.mcp.supervisor import ServerSupervisor
from toolfold.tools.arguments import TOO_LARGE_TO_EXPLAIN, bound_schema, sample
from toolfold.tools.sendable_values import parse_json
from toolfold.tools.tool import CallContext, Tool

# ----------------------------------------------------------------------------------------------------
# Resources and prompts as tools: three functions for all servers that have them.


def extra_tools(supervisors: Sequence[ServerSupervisor]) -> tuple[Tool, ...]:
    """`read_resource`, `list_resources` and `get_prompt`, each if a server can serve it."""
    by_name = {supervisor.server.name: supervisor for supervisor in supervisors}
    with_resources = {name: entry for name, entry in by_name.items() if entry.capabilities.resources is not None}
    with_prompts = {name: entry for name, entry in by_name.items() if entry.capabilities.prompts is not None}
    makers = (_list_resources, _read_resource) if with_resources else ()
    return (*(make(with_resources) for make in makers), *([_get_prompt(with_prompts)] if with_prompts else []))


def _list_resources(supervisors: Mapping[str, ServerSupervisor]) -> Tool:
    async def list_resources(arguments: Mapping[str, Any], _: CallContext) -> Value:
        resources = await supervisors[arguments["server"]].call(McpConnection.list_resources, may_repeat=True)
        return [
            {"uri": str(resource.uri), "name": resource.name, "description": resource.description or "",
             "mime": resource.mime_type or ""}
            for resource in resources
        ]  # fmt: skip

    fields = {name: {"type": "string"} for name in ("uri", "name", "description", "mime")}
    output = {"type": "array", "items": {"type": "object", "properties": fields, "required": list(fields)}}
    return _tool("list_resources", "What one server offers to read.", {}, supervisors, list_resources, output)


def _read_resource(supervisors: Mapping[str, ServerSupervisor]) -> Tool:
    async def read(arguments: Mapping[str, Any], context: CallContext) -> Value:
        async def work(connection: McpConnection) -> types.ReadResourceResult:
            return await connection.read_resource(arguments["uri"], execution_id=context.execution_id)

        result = await supervisors[arguments["server"]].call(work, may_repeat=True)
        values = [resource_value(content) for content in result.contents]
        return values[0] if len(values) == 1 else values

    description = "A resource of one server: text, parsed if it is JSON, or an object with `.mime` and `.data`."
    return _tool("read_resource", description, {"uri": {"type": "string"}}, supervisors, read, None)


def _get_prompt(supervisors: Mapping[str, ServerSupervisor]) -> Tool:
    async def get(arguments: Mapping[str, Any], context: CallContext) -> Value:
        prompt_arguments = {key: str(value) for key, value in (arguments.get("arguments") or {}).items()}

        async def work(connection: McpConnection) -> types.GetPromptResult:
            return await connection.get_prompt(arguments["name"], prompt_arguments, execution_id=context.execution_id)

        supervisor = supervisors[arguments["server"]]
        try:
            result = await supervisor.call(work, may_repeat=True)
        except ToolFailed as error:
            prompts = await supervisor.call(McpConnection.list_prompts, may_repeat=True)
            names = ", ".join(prompt.name for prompt in prompts)
            raise ToolFailed(f"{error}; the prompts of {supervisor.server.name!r} are: {names}") from error
        return [
            {"role": entry.role, "content": content_value([entry.content], parses=False)} for entry in result.messages
        ]

    parameters = {"name": {"type": "string"}, "arguments": {"type": "object"}}
    description = "The messages of one server's prompt, each with `role` and `content`."
    return _tool("get_prompt", description, parameters, supervisors, get, None, optional=("arguments",))


# Any: each function takes what its schema lets through.
def _tool(
    name: str, description: str, parameters: Mapping[str, Json], supervisors: Mapping[str, ServerSupervisor],
    call_within: Any, output: Mapping[str, Json] | None, optional: Sequence[str] = (),
) -> Tool:  # fmt: skip
    properties = {"server": {"type": "string", "enum": sorted(supervisors)}, **parameters}
    schema = {
        "type": "object", "properties": properties, "required": [key for key in properties if key not in optional],
        "additionalProperties": False,
    }  # fmt: skip
    spec = ToolSpec(
        name=name, python_name=name, description=description, input_schema=schema, output_schema=output,
        read_only=True, idempotent=True, source="mcp",
    )  # fmt: skip
    return _never_retried(spec, call_within)


# Any: as above.
def _never_retried(spec: ToolSpec, call_within: Callable[[Mapping[str, Any], CallContext], Awaitable[Value]]) -> Tool:
    """A tool whose supervisor has tried again where that is safe."""
    return Tool(
        spec=spec, call=lambda arguments: call_within(arguments, CallContext()), call_within=call_within, retry="never"
    )


# ----------------------------------------------------------------------------------------------------
# Names of bridged tools: as Claude Code spells them, as Python can, and short ones in the server's module.
#
# * `name` is `mcp__<server>__<tool>`. In both parts each UTF-16 unit outside `[A-Za-z0-9_-]` is `_`.
# * Where several tools come to one name, the one that is spelt exactly so keeps it; each other ends in
# `_` and six hex digits made from its own name. One longer than 128 is cut to 128 in the same way.
# * `python_name` is the name with `_` for `-`; further collisions are the catalog's to settle.
# * The plain spelling is an alias where it is another identifier: `mcp__wetter__größe`, or a long name uncut.
# * `short_name` is the tool's own name as an identifier: `from tools.<server> import <short_name>`.

MAX_CHARACTERS: Final = 128
"""Claude Code drops tools with longer names in silence."""
_DIGITS: Final = 6
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Names:
    """Names of one tool."""

    name: str
    python_name: str
    aliases: tuple[str, ...]
    domain: str
    short_name: str


def names_of(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Names]:
    """Names of each `(server, tool)`, in any order."""
    keys = sorted(set(tools))
    servers = {server for server, _ in keys}
    domains = _unique({(server,): (identifier(server), server) for server in servers})
    names = _unique({key: (f"mcp__{clean(key[0])}__{clean(key[1])}", f"mcp__{key[0]}__{key[1]}") for key in keys})
    shorts: dict[tuple[str, ...], str] = {}
    for server in servers:
        shorts |= _unique({key: (identifier(key[1]), key[1]) for key in keys if key[0] == server})
    return {key: _build_names(key, names[key], domains[key[0],], shorts[key]) for key in keys}


def clean(text: str) -> str:
    """Part of a name, by Claude Code's rule."""
    return _FOREIGN.sub(lambda sign: "_" * (2 if ord(sign[0]) > 0xFFFF else 1), text)


def identifier(text: str) -> str:
    """A name as Python can write it: itself where it is one, else with `_` for what cannot be."""
    # Python reads every identifier in this form, so a name in another would never be found.
    plain = unicodedata.normalize("NFKC", text)
    if not plain.isidentifier():
        plain = clean(text).replace("-", "_")
    if not plain or plain[0].isdigit():
        plain = f"_{plain}"
    return f"{plain}_tool" if keyword.iskeyword(plain) else plain


def _build_names(key: tuple[str, str], name: str, domain: str, short: str) -> Names:
    python_name = name.replace("-", "_")
    plain = unicodedata.normalize("NFKC", f"mcp__{key[0]}__{key[1]}")
    spellings = {plain, plain.replace("-", "_")}
    aliases = tuple(sorted(spelling for spelling in spellings if spelling != python_name and spelling.isidentifier()))
    return Names(name, python_name, aliases, domain, short)


def _unique(candidates: Mapping[tuple[str, ...], tuple[str, str]]) -> dict[tuple[str, ...], str]:
    """Names from candidates and plain spellings, no two alike, none too long."""
    count = Counter(candidate for candidate, _ in candidates.values())
    exact = Counter(candidate for candidate, plain in candidates.values() if candidate == plain)
    names: dict[tuple[str, ...], str] = {}
    for key, (candidate, plain) in candidates.items():
        keeps_it = count[candidate] == 1 or (candidate == plain and exact[candidate] == 1)
        names[key] = candidate if keeps_it and len(candidate) <= MAX_CHARACTERS else _with_digest(candidate, key)
    return names


def _with_digest(candidate: str, key: tuple[str, ...]) -> str:
    digest = hashlib.sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"{candidate[: MAX_CHARACTERS - _DIGITS - 1]}_{digest}"


_log: Final = logging.getLogger(__name__)


class Bridge:
    """Connections to MCP servers, opened in the background when it is entered; leaving it ends every child process.

    Args:
        servers: No two of one name.
        outer: The client outside; without it servers are told that it can do nothing.
        on_change: Called, in the event loop, when `tools()` has changed.
        on_sign_in: Called with a server's name and the address where a person must sign in; opens a browser.
        eras: The file of protocol eras; by default in the user's cache folder.
        tokens: The folder of sign-ins; by default in the user's data folder.
        remembered: The folder of the last listings; by default in the user's state folder.
    """

    def __init__(
        self, servers: Sequence[Server], *, outer: Outer | None = None, on_change: Callable[[], None] | None = None,
        on_sign_in: Callable[[str, str], None] | None = None, eras: Path | None = None, tokens: Path | None = None,
        remembered: Path | None = None,
    ) -> None:  # fmt: skip
        for name, count in Counter(server.name for server in servers).items():
            if count > 1:
                raise UsageError(f"two servers are named {name!r}; rename one")
        self._outer = outer
        self._on_change = on_change
        era_cache, listings = EraCache(eras), ListingStore(remembered)
        self._supervisors = {
            server.name: ServerSupervisor(
                server, outer=outer, eras=era_cache, listings=listings, tokens=tokens or token_folder(),
                on_change=self._change, on_sign_in=on_sign_in or _open_browser,
            )
            for server in servers
        }  # fmt: skip
        self._tasks: list[asyncio.Task[None]] = []
        self._tool_cache: dict[tuple[str, str], tuple[types.Tool, Names, Tool]] = {}
        self._tools: tuple[Tool, ...] | None = None

    async def __aenter__(self) -> Bridge:
        self._tasks = [
            asyncio.create_task(supervisor.run(), name=f"mcp server {name}")
            for name, supervisor in self._supervisors.items()
        ]
        return self

    async def __aexit__(self, *exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tools(self) -> tuple[Tool, ...]:
        """The tools known now, also from last time; the same objects until something changes."""
        if self._tools is None:
            listed_tools = {
                (name, tool.name): tool for name, supervisor in self._supervisors.items() for tool in supervisor.tools
            }
            names = names_of(listed_tools)
            self._tool_cache = {key: self._tool(key, tool, names[key]) for key, tool in listed_tools.items()}
            bridged_tools = tuple(tool for _, _, tool in self._tool_cache.values())
            self._tools = (*bridged_tools, *extra_tools(list(self._supervisors.values())))
        return self._tools

    def status(self) -> tuple[ServerStatus, ...]:
        """Status of each server, in the order of the config."""
        return tuple(supervisor.status for supervisor in self._supervisors.values())

    async def settled(self, names: Iterable[str] | None = None, *, timeout_seconds: float) -> None:
        """Wait until these servers, or all, have listed their tools or failed, or the time is up.

        Of these, one that has failed and never listed its tools gets another attempt.
        """
        selected_names = self._supervisors.keys() if names is None else set(names) & self._supervisors.keys()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                for name in selected_names:
                    supervisor = self._supervisors[name]
                    is_late = names is not None and supervisor.status.state == "failed" and not supervisor.tools
                    await (supervisor.retry() if is_late else supervisor.settled())

    async def roots_changed(self) -> None:
        """Notify servers of the older era, which keep the folders of the client outside."""
        for supervisor in self._supervisors.values():
            await supervisor.tell_roots_changed()

    def _change(self) -> None:
        self._tools = None
        if self._on_change is not None:
            self._on_change()

    def _tool(self, key: tuple[str, str], tool: types.Tool, names: Names) -> tuple[types.Tool, Names, Tool]:
        cached = self._tool_cache.get(key)
        # Kept where nothing changed: a router remembers its way to each tool object.
        if cached is not None and cached[:2] == (tool, names):
            return cached
        return tool, names, bridged_tool(tool, names, self._supervisors[key[0]], self._outer)


def _open_browser(server: str, url: str) -> None:
    _log.warning("server %r asks you to sign in: %s", server, url)
    # In a thread: some browsers are waited for until they are closed.
    asyncio.get_running_loop().run_in_executor(None, webbrowser.open, url)


# ----------------------------------------------------------------------------------------------------
# Bridged tools: a listed tool of a server as a `Tool` that calls it there.


def bridged_tool(tool: types.Tool, names: Names, supervisor: ServerSupervisor, outer: Outer | None) -> Tool:
    tool = _with_bounded_schemas(tool, names.name)
    read = value_reader(tool, names.name)
    spec = _spec(tool, names, supervisor)
    may_repeat = spec.read_only or spec.idempotent

    async def call_within(arguments: Mapping[str, Any], context: CallContext) -> Value:
        on_progress = _progress_callback(supervisor, names.name, context, outer)

        async def work(connection: McpConnection) -> types.CallToolResult:
            return await connection.call_tool(
                tool.name, arguments, execution_id=context.execution_id, on_progress=on_progress
            )

        return read(await supervisor.call(work, may_repeat=may_repeat))

    return _never_retried(spec, call_within)


def _with_bounded_schemas(tool: types.Tool, name: str) -> types.Tool:
    schemas = {"input_schema": tool.input_schema, "output_schema": tool.output_schema}
    return tool.model_copy(
        update={key: bound_schema(schema, name) for key, schema in schemas.items() if schema is not None}
    )


def _spec(tool: types.Tool, names: Names, supervisor: ServerSupervisor) -> ToolSpec:
    hints = tool.annotations or types.ToolAnnotations()
    return ToolSpec(
        name=names.name, python_name=names.python_name, aliases=names.aliases, domain=names.domain,
        short_name=names.short_name, description=tool.description or hints.title or tool.title or "",
        input_schema=tool.input_schema, output_schema=output_schema(tool), read_only=bool(hints.read_only_hint),
        idempotent=bool(hints.idempotent_hint), destructive=bool(hints.destructive_hint) and not hints.read_only_hint,
        timeout_seconds=supervisor.server.call_timeout_seconds, source=f"mcp:{supervisor.server.name}",
    )  # fmt: skip


def _progress_callback(
    supervisor: ServerSupervisor, tool: str, context: CallContext, outer: Outer | None
) -> ProgressFnT | None:
    if outer is None:
        return None

    async def tell(progress: float, total: float | None, message: str | None) -> None:
        outer.progress(
            server=supervisor.server.name, tool=tool, execution_id=context.execution_id, progress=progress, total=total,
            message=message or "",
        )  # fmt: skip

    return tell


# ----------------------------------------------------------------------------------------------------
# Results of a server as values that a program can use.
#
# * `structuredContent` first, whatever JSON it is. Where the output schema only wraps a value in
# `{"result": ...}`, the value; text in it that holds JSON is parsed.
# * Else the content: one part is the value, several are a list, none is `None`. Text that starts
# with `{` or `[` is parsed where the tool declares no output schema.
# * Images, sounds, links and files are `Media`.
# * `isError` is a `ToolFailed` with the text.

_WRAPPED: Final = "result"


def value_reader(tool: types.Tool, name: str) -> Callable[[types.CallToolResult], Value]:
    """Reader of this tool's results; it raises `ToolFailed` where the tool says that it failed."""
    wraps = _wraps(tool.output_schema)
    check = _Check(tool.output_schema, name) if tool.output_schema is not None else None

    def read(result: types.CallToolResult) -> Value:
        if result.is_error:
            raise ToolFailed(_error_text(result))
        if result.structured_content is None and "structured_content" not in result.model_fields_set:
            if check is not None:
                check.warn("it returned no structured content")
            return content_value(result.content, parses=tool.output_schema is None)
        value = result.structured_content
        if check is not None:
            check(value)
        if wraps and isinstance(value, dict) and value.keys() == {_WRAPPED}:
            inner = value[_WRAPPED]
            return parse_json(inner) if isinstance(inner, str) else inner
        return value

    return read


def output_schema(tool: types.Tool) -> Mapping[str, Json] | None:
    """Schema of the values of `value_reader`; `None` for text that may hold JSON."""
    schema = tool.output_schema
    if schema is None or not _wraps(schema):
        return schema
    inner = schema["properties"][_WRAPPED]
    if not isinstance(inner, dict) or "string" in _types(inner):
        return None
    return {**inner, **{key: schema[key] for key in ("$defs", "definitions") if key in schema}}


def content_value(parts: list[types.ContentBlock], *, parses: bool) -> Value:
    values = [_part(part, parses=parses) for part in parts]
    return values[0] if len(values) == 1 else values or None


def resource_value(contents: types.TextResourceContents | types.BlobResourceContents) -> Value:
    return contents.text if isinstance(contents, types.TextResourceContents) else _file(contents)


def _part(part: types.ContentBlock, *, parses: bool) -> Value:
    match part:
        case types.TextContent():
            return parse_json(part.text) if parses else part.text
        case types.ImageContent():
            return Media(kind="image", mime=part.mime_type, data=_bytes(part.data))
        case types.AudioContent():
            return Media(kind="audio", mime=part.mime_type, data=_bytes(part.data))
        case types.ResourceLink():
            return Media(kind="link", mime=part.mime_type or "", uri=str(part.uri), name=part.name)
        case types.EmbeddedResource():
            return _file(part.resource)


def _file(contents: types.TextResourceContents | types.BlobResourceContents) -> Media:
    if isinstance(contents, types.TextResourceContents):
        data, kind = contents.text.encode("utf-8", "replace"), "text/plain"
    else:
        data, kind = _bytes(contents.blob), "application/octet-stream"
    uri = str(contents.uri)
    mime = contents.mime_type or kind
    return Media(kind="file", mime=mime, data=data, uri=uri, name=uri.rstrip("/").rpartition("/")[2])


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")  # broken data is still data; the program may look at it


def _error_text(result: types.CallToolResult) -> str:
    texts = [part.text for part in result.content if isinstance(part, types.TextContent)]
    if not any(texts) and result.structured_content is not None:
        texts = [msgspec.json.encode(result.structured_content).decode()]
    return "\n".join(texts).strip() or "the tool said no more than that it failed"


def _wraps(schema: Mapping[str, Json] | None) -> bool:
    """Whether a schema is there only because structured content had to be an object."""
    return (
        schema is not None
        and schema.get("type") == "object"
        and isinstance(schema.get("properties"), dict)
        and schema["properties"].keys() == {_WRAPPED}
    )


def _types(schema: Mapping[str, Json]) -> list[str]:
    """Types of a schema and of its alternatives."""
    kind = schema.get("type", [])
    kinds = [kind] if isinstance(kind, str) else list(kind)
    for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        kinds += _types(option) if isinstance(option, dict) else []
    return kinds


class _Check:
    """Check of results against the tool's own schema, which only warns, once."""

    def __init__(self, schema: Mapping[str, Json], name: str) -> None:
        self._name = name
        self._has_warned = False
        # Any: the validator has no public type.
        self._validator: Any = None
        try:
            # Offline: a `$ref` of a stranger must not make this host fetch it.
            self._validator = jsonschema_rs.validator_for(dict(schema), validate_formats=False, offline=True)
        except ValueError as error:
            self.warn(f"the schema is broken: {str(error).partition(chr(10))[0]}")

    def __call__(self, value: Value) -> None:
        if self._has_warned or self._validator is None or self._validator.is_valid(value):
            return
        # Of the first parts only: an error for each of a million items would stop the host.
        error = next(self._validator.iter_errors(sample(value)), None)
        self.warn(error.message.partition("\n")[0][:200] if error is not None else TOO_LARGE_TO_EXPLAIN)

    def warn(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            _log.warning("results of %r do not match its output schema: %s", self._name, reason)
