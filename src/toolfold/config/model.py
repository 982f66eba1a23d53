"""Config model: `toolfold.yaml` as types. Checks one value at a time; `load` finds the line it stands on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic.json_schema import GenerateJsonSchema

from toolfold.config.sections import (
    ApiConfig,
    ConsoleConfig,
    Count,
    Duration,
    EngineName,
    FetchConfig,
    Globs,
    HttpConfig,
    LibrarySetConfig,
    McpConfig,
    PolicyConfig,
    PriceConfig,
    ProgramsConfig,
    RayConfig,
    Seconds,
    Section,
    SetName,
    Size,
    Text,
    Url,
    check_texts,
    must_be,
    wrong_key,
)
from toolfold.errors import UsageError
from toolfold.models import MIB, Json, Language, Limits, Prices


def _is_argv_item(item: Any) -> str | tuple[str, ...]:
    texts = item if isinstance(item, list) else [item]
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise must_be("text, or a list of text; put numbers in quotes")
    return tuple(texts) if isinstance(item, list) else texts[0]


_ARGV_ITEM: Final[dict[str, Json]] = {
    "anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]
}

# Any and a check of its own: the errors of a union name its members instead of the place.
ArgvItem = Annotated[Any, AfterValidator(_is_argv_item), WithJsonSchema(_ARGV_ITEM)]
Transport = Literal["stdio", "sse", "http"]

_OF_STDIO: Final = ("command", "args", "env", "env_file", "inherit_env", "cwd")
_OF_URL: Final = ("url", "headers")
_TWINS: Final = {"timeout_seconds": "wall_seconds", "max_output_bytes": "output_bytes"}
"""Keys of `execution`, and the keys of `limits` that mean the same."""


class ServerConfig(Section):
    """One MCP server whose tools programs may call."""

    name: Text
    """Part of each tool's name: `mcp__<name>__<tool>`."""
    transport: Transport = "stdio"
    """By default stdio if `command` is set, http if `url` is set."""
    command: Text | None = None
    """stdio: the command to start; with a slash, a path relative to the config's folder."""
    args: tuple[str, ...] = ()
    """stdio: its arguments; paths in them are relative to `cwd`."""
    env: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """stdio: environment variables, in addition to the inherited ones."""
    env_file: Text | None = None
    """stdio: a file of `NAME=value` lines, relative to the config's folder; `env` takes precedence."""
    inherit_env: bool = True
    """stdio: inherit the environment, except `TOOLFOLD_*` and variables of this file; if false, only PATH, HOME etc."""
    cwd: Text | None = None
    """stdio: the working directory, relative to the config's folder. Default: that folder."""
    url: Url | None = None
    """sse, http: the server's URL."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """sse, http: sent with every request."""
    connect_timeout_seconds: Seconds = 30.0
    """How long the server may take to answer at the start."""
    call_timeout_seconds: Seconds | None = None
    """How long one call may take. Default: as long as the program may run."""
    concurrency: Count | None = None
    """How many calls the server gets at a time, from all programs together. Default: no limit."""

    # Any: whatever stands in the file.
    @model_validator(mode="before")
    @classmethod
    def _with_transport(cls, data: Any) -> Any:
        if isinstance(data, dict) and "transport" not in data and "url" in data and "command" not in data:
            return {**data, "transport": "http"}
        return data

    @model_validator(mode="after")
    def _check_transport(self) -> ServerConfig:
        needed, other_keys = ("command", _OF_URL) if self.transport == "stdio" else ("url", _OF_STDIO)
        for key in other_keys:
            if key in self.model_fields_set:
                raise wrong_key(key, f"is not for a server with transport {self.transport!r}; remove it")
        if getattr(self, needed) is None:
            raise wrong_key(needed, f"is missing; a server with transport {self.transport!r} needs it")
        if not self.name.isprintable():
            raise wrong_key("name", f"must be printable text on one line, got {self.name[:80]!r}")
        check_texts("args", self.args)
        for key in ("command", "env_file", "cwd", "url"):
            check_texts(key, [getattr(self, key) or ""])
        if any(not name or "=" in name for name in self.env):
            raise wrong_key("env", "has a variable without a name, or with '=' in it; rename it")
        check_texts("env", (text for pair in self.env.items() for text in pair))
        check_texts("headers", (text for pair in self.headers.items() for text in pair), is_one_line=True)
        return self

    def resolve_paths(self, folder: Path) -> ServerConfig:
        """Copy with a command and a working directory that are valid wherever the client was started."""
        if self.command is None:
            return self
        is_path = "/" in self.command or os.sep in self.command
        command = str(folder / self.command) if is_path else self.command
        return self.model_copy(update={"command": command, "cwd": str(folder / (self.cwd or ""))})


class CommandConfig(Section):
    """One command of this machine as a tool; no shell reads it. Left out, a key is as for `shell_tool`."""

    name: Text
    """The tool's name."""
    argv: tuple[ArgvItem, ...] = Field(min_length=1)
    """The program and its arguments; `{name}` stands for the argument of that name."""
    description: str = ""
    """The description for the model."""
    input_schema: Mapping[str, Json] | None = None
    """A JSON Schema for the arguments. Default: each `{name}` is a required string."""
    output: Literal["text", "json"] = "text"
    """`text`, or `json`, parsed."""
    output_schema: Mapping[str, Json] | None = None
    """A JSON Schema for the reply."""
    stdin: str | None = None
    """What the command reads; `{name}` is filled in as in `argv`."""
    cwd: Text | None = None
    """The working directory, relative to the config's folder."""
    environment: tuple[Text, ...] | None = None
    """The names of the environment variables that the command inherits."""
    variables: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Further environment variables, with values."""
    allow_options: tuple[Text, ...] = ()
    """Arguments whose value may start with `-`."""
    ok_codes: tuple[int, ...] = (0,)
    """Exit codes that mean success."""
    timeout_seconds: Seconds | None = None
    """The time after which the command and all its child processes are killed."""
    max_output_bytes: Size | None = None
    """The amount of output after which they are killed."""
    domain: str = ""
    """The module that programs import it from: `from tools.<domain> import <name>`."""
    read_only: bool = False
    """The command changes nothing, so a failed call may be retried."""
    idempotent: bool = False
    """Running it twice has the same effect as once, so a failed call may be retried."""
    destructive: bool = False
    """The command may change or delete existing data."""
    allowed_callers: Literal["direct", "code", "both"] = "both"
    """Who may call it: programs (`code`), clients (`direct`), or both."""
    cache_seconds: Seconds | None = None
    """How long a reply is reused for the same arguments."""

    @field_validator("input_schema")
    @classmethod
    def _is_an_object(cls, schema: Mapping[str, Json] | None) -> Mapping[str, Json] | None:
        if schema is not None and schema.get("type", "object") != "object":
            raise must_be("a JSON Schema with 'type: object'")
        return schema


class FolderConfig(Section):
    """One folder of this machine: tools to read, list, search and, if said so, write the files in it."""

    name: Text
    """The prefix of each tool's name: `<name>_read_file`."""
    path: Text
    """The folder, relative to the config's folder."""
    write: bool = False
    """Also provide a tool that writes: `<name>_write_file`."""
    max_bytes: Size | None = None
    """The maximum size of one file."""


class ToolsConfig(Section):
    """Which tools there are, and which of them a program may call. Names may hold `*` and `?`."""

    allow: Globs | None = None
    """Only these may be called."""
    block: Globs | None = None
    """These may not be called."""
    ask: Globs = ()
    """Each call of these needs a person's approval."""
    ask_destructive: bool = False
    """Each call of a tool that is marked destructive needs approval too."""
    error_details: bool = True
    """Show programs the text of a tool's error, without secrets; if false, only its type. The log has the full text."""
    learn: bool = True
    """Learn what tools without an output schema return (keys and types, never values), and tell later programs."""
    embedder: Text | None = None
    """Also search by meaning: `fastembed`, `fastembed:MODEL`, or a function from texts to vectors as
    `MODULE:FUNCTION` or `FILE.py:FUNCTION`."""
    modules: tuple[Text, ...] = ()
    """Python files, relative to the config's folder, or modules, with `@toolfold.tool` functions."""
    commands: tuple[CommandConfig, ...] = ()
    """Commands on this machine, as tools."""
    folders: tuple[FolderConfig, ...] = ()
    """Folders on this machine, as tools that read and write their files."""
    apis: tuple[ApiConfig, ...] = ()
    """APIs described by an OpenAPI document, one tool per operation."""
    fetch: FetchConfig | None = None
    """A tool that fetches any URL of the named hosts. Default: no such tool."""

    @model_validator(mode="after")
    def _allows_or_blocks(self) -> ToolsConfig:
        if self.allow is not None and self.block is not None:
            raise wrong_key("block", "cannot stand beside tools.allow; keep one of the two")
        _unique([command.name for command in self.commands], "commands")
        _unique([folder.name for folder in self.folders], "folders")
        _unique([api.name for api in self.apis], "apis")
        return self


class ExecutionConfig(Section):
    """The two limits that most people change, and the languages of programs."""

    timeout_seconds: Seconds | None = None
    """Of one program, on the wall clock."""
    max_output_bytes: Size | None = None
    """Of a program's output; the rest is cut."""
    languages: frozenset[Language] | None = None
    """`[python]` or `[python, bash]`: what clients may send; unless set, only LibreChat may send bash."""


class LimitsConfig(Section):
    """What one program may use; see `toolfold.Limits`."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Count | None = None
    memory_bytes: Size | None = None
    output_bytes: Size | None = None
    value_bytes: Size | None = None
    sent_bytes: Size | None = None
    reply_bytes: Size | None = None
    calls: Count | None = None
    calls_in_flight: Count | None = None
    data_bytes: Size | None = None
    data_files: Count | None = None
    temp_bytes: Size | None = None
    open_files: Count | None = None
    threads: Count | None = None
    program_bytes: Size | None = None

    @field_validator("memory_bytes", "data_files")
    @classmethod
    def _check_smallest(cls, value: int | None, info: ValidationInfo) -> int | None:
        """Refuse what no sandbox can be built with; most likely the unit is missing."""
        least, text = (MIB, "1MiB or more, such as 512MiB") if info.field_name == "memory_bytes" else (16, "16 or more")
        if value is not None and value < least:
            raise must_be(text)
        return value


class LibrariesConfig(LibrarySetConfig):
    """Which packages programs can import."""

    sets: Mapping[SetName, LibrarySetConfig] = Field(default_factory=dict)
    """Further sets by name, each resolved separately; a program gets the set that matches its imports."""
    host: bool = False
    """Let programs import everything installed beside toolfold, your own packages too, not only the data libraries."""


class SessionsConfig(Section):
    """What lives on between programs; see `toolfold.sessions.SessionLimits`."""

    idle: Duration | None = None
    """How long after its last program a session keeps its variables."""
    max_age: Duration | None = None
    """How long after its last program a session keeps its files."""
    max_bytes: Size | None = None
    """The maximum size of a session's files."""
    max_sessions: Count | None = None
    """The maximum number of sessions."""
    max_tenant_bytes: Size | None = None
    """The maximum size of the files of all sessions of one HTTP tenant."""
    max_guests: Count | None = None
    """How many processes may wait with their sessions' variables; beyond that, the least recently used one ends."""
    max_guest_bytes: Size | None = None
    """How much memory these processes may hold together; beyond that, the same happens."""


class PausedConfig(Section):
    """How much memory the guests of paused executions may hold; see `toolfold.execution.pauses.PausedLimits`."""

    tenant_bytes: Size | None = None
    """The limit for one tenant. Beyond it, the oldest are ended, and replayed when they continue."""
    total_bytes: Size | None = None
    """The limit for all tenants. Beyond it, the oldest of the tenant with the most are ended in the same way."""


class KeepConfig(Section):
    """When the ledger forgets; whichever comes first."""

    max_age: Duration | None = None
    """How long an execution is kept after its end; one still open, after its last entry and at least an hour."""
    max_bytes: Size | None = None
    """The maximum size of the ledger."""
    max_executions: Count | None = None
    """The maximum number of executions in the ledger."""


class LedgerConfig(Section):
    """Where executions are recorded."""

    where: Text | None = None
    """A file, relative to the config's folder, a Redis URL, or `memory`. Default: a file in the user's state folder."""
    keep: KeepConfig = Field(default_factory=KeepConfig)
    """How much to keep, and for how long."""
    key: SecretStr | None = None
    """Encrypts the records: 32 bytes in base64, or a passphrase. Use a variable."""


class Config(Section):
    """A whole `toolfold.yaml`."""

    servers: tuple[ServerConfig, ...] = ()
    """MCP servers whose tools programs may call."""
    tools: ToolsConfig = Field(default_factory=ToolsConfig)
    """Further tools, and which tools programs may call."""
    policies: Mapping[Text, PolicyConfig] = Field(default_factory=dict)
    """Settings by tool name or pattern. If several set a key, the last one wins; for call counts, the smallest."""
    execution: ExecutionConfig = Field(default_factory=ExecutionConfig)
    """`timeout_seconds` and `max_output_bytes` of one program, and the `languages` it may be in."""
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    """The other limits of one program."""
    libraries: LibrariesConfig = Field(default_factory=LibrariesConfig)
    """Which packages programs can import."""
    sessions: SessionsConfig = Field(default_factory=SessionsConfig)
    """What is kept between programs."""
    paused: PausedConfig = Field(default_factory=PausedConfig)
    """How much memory paused programs may hold."""
    ledger: LedgerConfig = Field(default_factory=LedgerConfig)
    """Where executions are recorded."""
    http: HttpConfig = Field(default_factory=HttpConfig)
    """The HTTP server: `toolfold serve`."""
    mcp: McpConfig = Field(default_factory=McpConfig)
    """The MCP server: `toolfold mcp`."""
    programs: ProgramsConfig = Field(default_factory=ProgramsConfig)
    """Saved programs, which are offered as tools."""
    console: ConsoleConfig = Field(default_factory=ConsoleConfig)
    """The web console: `toolfold console`."""
    prices: Mapping[Text, PriceConfig] = Field(default_factory=dict)
    """What tokens cost, by name or pattern of the model: `{claude-sonnet-*: {input: 3, output: 15, cached: 0.3}}`."""
    approvals: Literal["client", "console", "both"] = "client"
    """Who approves calls that need approval: the client that sent the program, people at a console, or both."""
    approvals_wait: Duration = 3600.0
    """How long a call waits for an answer from a console before it is refused."""
    engine: EngineName = "auto"
    """Where programs run: `auto`, `process`, `wasm`, `monty`, `ray`, or an engine that another package registers."""
    ray: RayConfig = Field(default_factory=RayConfig)
    """The cluster for the engine `ray`."""
    isolation: Literal["namespace", "landlock", "none"] = "namespace"
    """The isolation level of the process engine: `namespace`, `landlock` or `none`."""

    _path: Path | None = PrivateAttr(default=None)
    _variables: Mapping[str, str] = PrivateAttr(default_factory=dict)
    _uses: frozenset[tuple[str, str]] = PrivateAttr(default=frozenset())
    _place: Callable[[tuple[str | int, ...]], str] | None = PrivateAttr(default=None)
    _left_out: Mapping[str, str] = PrivateAttr(default_factory=dict)

    def place(self, *path: str | int) -> str:
        """Position of a value, for later errors: `toolfold.yaml:12: tools.commands[0]`."""
        return ".".join(str(step) for step in path) if self._place is None else self._place(path)

    @contextmanager
    def errors_at(self, *path: str | int) -> Iterator[None]:
        """Put the position of a value before a `UsageError` that it causes."""
        try:
            yield
        except UsageError as error:
            raise UsageError(f"{self.place(*path)}: {error}") from error

    @property
    def variables(self) -> Mapping[str, str]:
        """Values that were filled in for each `${NAME}`."""
        return self._variables

    def used_elsewhere(self, server: str) -> frozenset[str]:
        """Names of variables that the file uses for other things than this server."""
        return frozenset(name for name, user in self._uses if user != server)

    @property
    def path(self) -> Path | None:
        """The file that this was read from."""
        return self._path

    @property
    def folder(self) -> Path:
        """Folder that relative paths in the file are relative to."""
        return Path.cwd() if self._path is None else self._path.parent

    @property
    def price_table(self) -> dict[str, Prices]:
        """The prices of tokens, for `Prices.find`."""
        return {model: Prices(**prices.model_dump()) for model, prices in self.prices.items()}

    @property
    def program_limits(self) -> Limits:
        """The limits of a program, with the defaults for what the file does not say."""
        values = self.limits.model_dump(exclude_none=True)
        twins = self.execution.model_dump(include=set(_TWINS), exclude_none=True)
        values.update({_TWINS[key]: value for key, value in twins.items()})
        return Limits(**values)

    @model_validator(mode="after")
    def _check_duplicates(self) -> Config:
        for key, twin in _TWINS.items():
            if getattr(self.execution, key) is not None and getattr(self.limits, twin) is not None:
                raise wrong_key(f"limits.{twin}", f"is already set as execution.{key}; keep one of the two")
        _unique([server.name for server in self.servers], "servers")
        return self


def plain_name(name: str) -> str:
    """A name as it appears in tool names; names that differ only in characters not allowed there are equal."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _unique(names: Sequence[str], key: str) -> None:
    plain = [plain_name(name) for name in names]
    for at, name in enumerate(plain):
        first = plain.index(name)
        if first < at:
            raise wrong_key(f"{key}.{at}.name", f"is taken by {key}[{first}] {names[first]!r}; take another name")


# ----------------------------------------------------------------------------------------------------
# The JSON Schema of `toolfold.yaml`, for editors; `python -m toolfold.config.model` writes it anew.

FILE_NAME: Final = "config.schema.json"


class _Schema(GenerateJsonSchema):
    """Without titles made from names."""

    # Any: what pydantic hands over here is a large union that nothing looks into.
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def config_schema() -> dict[str, Any]:
    """Generated from the types that the loader checks with."""
    schema = Config.model_json_schema(schema_generator=_Schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "toolfold.yaml"}


def schema_text() -> str:
    return json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(__file__).parents[1].joinpath(FILE_NAME).write_text(schema_text(), encoding="utf-8")
