"""What `toolfold.yaml` may say, as types. Checks one value at a time; `load` finds the line it stands on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from toolfold.config.units import Count, Duration, Seconds, Size
from toolfold.models import Json, Limits


def wrong_key(key: str, message: str) -> PydanticCustomError:
    """An error of one key, raised by a check that sees the whole section."""
    return PydanticCustomError("key", "{message}", {"message": message, "key": key})


class Section(BaseModel):
    """A part of the file: no key that is not listed, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


def _is_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        # Port 0 is nowhere; reading one that is no number raises.
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good or re.search(r"\s", text):
        raise PydanticCustomError("must_be", "must be {what}", {"what": "a URL such as http://localhost:8080/mcp"})
    return text


Text = Annotated[str, StringConstraints(min_length=1)]
Url = Annotated[str, AfterValidator(_is_url)]
Globs = tuple[Text, ...]
Transport = Literal["stdio", "sse", "http"]

_OF_STDIO: Final = ("command", "args", "env", "cwd")
_OF_URL: Final = ("url", "headers")
_TWINS: Final = {"timeout_seconds": "wall_seconds", "max_output_bytes": "output_bytes"}
"""Keys of `execution`, and the keys of `limits` that mean the same."""


class ServerConfig(Section):
    """One MCP server whose tools programs may call."""

    name: Text
    """Part of each tool's name: `mcp__<name>__<tool>`."""
    transport: Transport = "stdio"
    """Taken from what is there if it is left out: `command` means stdio, `url` means http."""
    command: Text | None = None
    """stdio: what to start."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """stdio: variables on top of this process' own."""
    cwd: Text | None = None
    """stdio: a folder, relative to the file's own."""
    url: Url | None = None
    """sse, http: where the server listens."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    connect_timeout_seconds: Seconds = 30.0
    call_timeout_seconds: Seconds | None = None
    """How long one call may take; left out, the program's own time is the limit."""

    # Any: whatever stands in the file.
    @model_validator(mode="before")
    @classmethod
    def _with_transport(cls, data: Any) -> Any:
        if isinstance(data, dict) and "transport" not in data and "url" in data and "command" not in data:
            return {**data, "transport": "http"}
        return data

    @model_validator(mode="after")
    def _fits_its_transport(self) -> ServerConfig:
        needed, others = ("command", _OF_URL) if self.transport == "stdio" else ("url", _OF_STDIO)
        for key in others:
            if key in self.model_fields_set:
                raise wrong_key(key, f"is not for a server with transport {self.transport!r}; remove it")
        if getattr(self, needed) is None:
            raise wrong_key(needed, f"is missing; a server with transport {self.transport!r} needs it")
        return self


class CommandConfig(Section):
    """One command of this machine as a tool; it is started without a shell."""

    name: Text
    argv: tuple[Text, ...] = Field(min_length=1)
    """The program and its arguments; `{name}` stands for the argument of that name."""
    description: str = ""
    parameters: Mapping[str, Json] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """A JSON Schema of the tool's arguments."""
    domain: str = ""
    cwd: Text | None = None
    """A folder, relative to the file's own."""
    env: tuple[Text, ...] = ()
    """Names of the variables that the command gets from this process; `PATH` it always gets."""
    stdin: str | None = None
    """What it reads; `{name}` is filled in as in `argv`."""
    output: Literal["text", "json"] = "text"
    timeout_seconds: Seconds | None = None
    max_output_bytes: Size | None = None
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False

    @field_validator("parameters")
    @classmethod
    def _are_an_object(cls, schema: Mapping[str, Json]) -> Mapping[str, Json]:
        if schema.get("type", "object") != "object":
            raise PydanticCustomError("must_be", "must be {what}", {"what": "a JSON Schema with 'type: object'"})
        return schema


class ToolsConfig(Section):
    """Which tools there are, and which of them a program may call. Names may hold `*` and `?`."""

    allow: Globs | None = None
    """Only these may be called."""
    block: Globs | None = None
    """These may not be called."""
    ask: Globs = ()
    """A person is asked before each call of these."""
    modules: tuple[Text, ...] = ()
    """Python files, relative to this file's folder, or modules, with `@toolfold.tool` functions."""
    commands: tuple[CommandConfig, ...] = ()

    @model_validator(mode="after")
    def _allows_or_blocks(self) -> ToolsConfig:
        if self.allow is not None and self.block is not None:
            raise wrong_key("block", "cannot stand beside tools.allow; keep one of the two")
        _unique([command.name for command in self.commands], "commands")
        return self


class ExecutionConfig(Section):
    """The two limits that most people change."""

    timeout_seconds: Seconds | None = None
    """Of one program, on the wall clock."""
    max_output_bytes: Size | None = None
    """Of a program's output; the rest is cut."""


class LimitsConfig(Section):
    """What one program may use; see `toolfold.Limits`."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Count | None = None
    memory_bytes: Size | None = None
    output_bytes: Size | None = None
    value_bytes: Size | None = None
    reply_bytes: Size | None = None
    calls: Count | None = None
    calls_in_flight: Count | None = None
    data_bytes: Size | None = None
    data_files: Count | None = None
    temp_bytes: Size | None = None
    open_files: Count | None = None
    threads: Count | None = None
    program_bytes: Size | None = None


class PolicyConfig(Section):
    """How calls of some tools go."""

    timeout_seconds: Seconds | None = None
    """Of one call."""
    retry: Literal["never", "safe", "always"] = "safe"
    """`safe`: only where a second call can do no harm."""
    cache_seconds: Seconds | None = None
    """How long an answer is good for the same arguments."""
    max_calls: Count | None = None
    """Of one tool, in one program."""


class SessionsConfig(Section):
    """What lives on between programs."""

    idle: Duration = 900.0
    max_age: Duration = 86400.0
    max_bytes: Size = 256 * 2**20


class KeepConfig(Section):
    """When the ledger forgets; whichever comes first."""

    max_age: Duration | None = None
    max_bytes: Size | None = None
    max_executions: Count | None = None


class LedgerConfig(Section):
    """Where executions are recorded."""

    where: Text | None = None
    """A file, relative to this file's folder, or `memory`; left out, the user's state folder."""
    keep: KeepConfig = Field(default_factory=KeepConfig)
    key: SecretStr | None = None
    """Encrypts what is kept: 32 bytes in base64, or a passphrase. Take it from a variable."""


class Config(Section):
    """A whole `toolfold.yaml`."""

    servers: tuple[ServerConfig, ...] = ()
    tools: ToolsConfig = Field(default_factory=ToolsConfig)
    policies: Mapping[Text, PolicyConfig] = Field(default_factory=dict)
    """By tool name or glob; where several fit, the later one wins key by key."""
    execution: ExecutionConfig = Field(default_factory=ExecutionConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    sessions: SessionsConfig = Field(default_factory=SessionsConfig)
    ledger: LedgerConfig = Field(default_factory=LedgerConfig)
    engine: Literal["auto", "process", "monty"] = "auto"
    isolation: Literal["namespace", "landlock", "none"] = "namespace"

    _path: Path | None = PrivateAttr(default=None)

    @property
    def path(self) -> Path | None:
        """The file that this was read from."""
        return self._path

    @property
    def folder(self) -> Path:
        """What relative paths in the file are relative to."""
        return Path.cwd() if self._path is None else self._path.parent

    @property
    def program_limits(self) -> Limits:
        """The limits of a program, with the defaults for what the file does not say."""
        said = self.limits.model_dump(exclude_none=True)
        said.update({_TWINS[key]: value for key, value in self.execution.model_dump(exclude_none=True).items()})
        return Limits(**said)

    @model_validator(mode="after")
    def _says_it_once(self) -> Config:
        for key, twin in _TWINS.items():
            if getattr(self.execution, key) is not None and getattr(self.limits, twin) is not None:
                raise wrong_key(f"limits.{twin}", f"is set as execution.{key} already; keep one of the two")
        _unique([server.name for server in self.servers], "servers")
        return self


def _unique(names: Sequence[str], key: str) -> None:
    # Two names that differ only in signs that tool names cannot hold would give one name twice.
    plain = [re.sub(r"[^A-Za-z0-9_-]", "_", name) for name in names]
    for at, name in enumerate(plain):
        first = plain.index(name)
        if first < at:
            raise wrong_key(f"{key}.{at}.name", f"is taken by {key}[{first}] {names[first]!r}; take another name")
