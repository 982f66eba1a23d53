"""What `toolfold.yaml` may say of the HTTP door and of the MCP door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BeforeValidator, Field, SecretStr, StringConstraints, WithJsonSchema, model_validator

from toolfold.config.section import Globs, Section, Text, Url, wrong_key
from toolfold.config.units import Count, Duration, Size

OPEN_TENANT: Final = "local"


class JwtConfig(Section):
    """Signed tokens instead of API keys, as LibreChat sends them (EdDSA or RS256)."""

    issuer: Text = "librechat"
    """The `iss` that tokens must have."""
    audience: Text = "codeapi"
    """The `aud` that tokens must have."""
    public_key_file: Text | None = None
    """A PEM file, relative to the config's folder."""
    jwks_url: Url | None = None
    """A URL to fetch the keys from instead."""
    tenant_claim: Text | None = None
    """The claim that distinguishes tenants, such as `sub`. Default: all tokens of this issuer are one tenant."""

    @model_validator(mode="after")
    def _has_one_key(self) -> JwtConfig:
        if (self.public_key_file is None) == (self.jwks_url is None):
            raise wrong_key("public_key_file", "or jwks_url must be given, and not both")
        return self


_Role = Literal["read", "run", "approve"]


class KeyConfig(Section):
    """One of a tenant's API keys, with less than all rights."""

    key: SecretStr
    """The API key. Use a variable."""
    roles: Annotated[frozenset[_Role], Field(min_length=1)]
    """`read` looks, `run` also starts, continues and cancels programs, `approve` also decides on calls that need
    approval."""


# Any: as it is in the file.
def _as_keys(value: Any) -> Any:
    """A list of keys; one that stands alone has all rights."""
    if isinstance(value, list | tuple):
        return value
    return [value if isinstance(value, Mapping) else {"key": value, "roles": get_args(_Role)}]


_KEY_SCHEMA: Final = {
    "type": "object", "additionalProperties": False, "required": ["key", "roles"],
    "properties": {
        "key": {"type": "string", "description": "The API key. Use a variable."},
        "roles": {"type": "array", "minItems": 1, "items": {"enum": list(get_args(_Role))}},
    },
}  # fmt: skip
Keys = Annotated[
    tuple[KeyConfig, ...],
    BeforeValidator(_as_keys),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, _KEY_SCHEMA, {"type": "array", "minItems": 1, "items": _KEY_SCHEMA}]}
    ),
]
"""A tenant's keys: a text, or one or more with roles."""


class HttpConfig(Section):
    """The HTTP door; see `docs/http.md`."""

    host: Text = "127.0.0.1"
    """The address to listen on; any address other than loopback needs keys."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port to listen on; 0 picks a free one."""
    base_path: Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+)*$")] = ""
    """A prefix for every path, such as `/v1`."""
    keys: Mapping[Text, Keys] = Field(default_factory=dict)
    """The API key of each tenant, with all rights: whoever runs programs with it may also approve their calls. Or one
    or more keys with `roles`. Use variables."""
    jwt: JwtConfig | None = None
    """Accept signed tokens instead of, or in addition to, API keys."""
    tools: Mapping[Text, Globs] = Field(default_factory=dict)
    """Which tools of `servers`, `tools.apis` and `tools.fetch` each tenant's programs may call:
    `{acme: ["mcp__crm__*"]}`."""
    token_key: SecretStr | None = None
    """Signs continuation tokens. Default: a generated key, kept in the state folder or in a ledger on a server."""
    advertise: Text | None = None
    """Where other replicas reach this one, such as `http://10.0.0.5:8000`. Default: `host` and `port`."""
    lease: Duration | None = None
    """How long replicas wait for a missing one before they take over its executions."""
    files: Text | None = None
    """Where sessions store files, relative to the config's folder. Default: the state folder."""
    ask_clients: bool = False
    """Ask the client that sent a program about calls that need approval. By default, such calls are refused."""
    max_rounds: Count | None = None
    """How often one execution may pause."""
    timeout: Duration | None = None
    """The timeout of an execution whose request names none, including pauses."""
    max_timeout: Duration | None = None
    """The longest timeout that a request may ask for."""
    starts_per_minute: Count | None = None
    """How many executions and uploads one tenant may start per minute."""
    running: Count | None = None
    """How many programs of one tenant run at a time. Default: the number of processors, at least 2."""
    waiting: Count | None = None
    """How many requests of one tenant may wait for their turn."""
    paused: Count | None = None
    """How many executions of one tenant may be paused at a time."""
    max_body_bytes: Size | None = None
    """The maximum size of a request."""
    max_upload_bytes: Size | None = None
    """The maximum size of an upload."""
    max_connections: Count | None = None
    """The maximum number of connections; beyond that, idle ones are closed. Default: half of the allowed open files."""
    max_held_bytes: Size | None = None
    """The maximum size of all request bodies of one tenant in memory; beyond that, requests are told to come back
    later."""
    preload_data: bool = True
    """Load numpy, pandas and matplotlib at the start; turn it off to save memory if programs do not need them."""

    @model_validator(mode="after")
    def _tells_its_keys_apart(self) -> HttpConfig:
        seen: dict[str, str] = {}
        for tenant, keys in self.keys.items():
            if not keys:
                raise wrong_key(f"keys.{tenant}", "is empty; give it a key, or leave the tenant out")
            for secret in (entry.key.get_secret_value() for entry in keys):
                if secret in seen:
                    raise wrong_key(f"keys.{tenant}", f"repeats a key of {seen[secret]!r}; give each its own")
                seen[secret] = tenant
        return self

    @model_validator(mode="after")
    def _knows_its_tenants(self) -> HttpConfig:
        if self.jwt is not None and self.jwt.tenant_claim is not None:
            return self  # tenants come with their tokens
        known = [*self.keys, *([] if self.jwt is None else [self.jwt.issuer])] or [OPEN_TENANT]
        for tenant in self.tools:
            if tenant not in known:
                raise wrong_key(f"tools.{tenant}", f"is no tenant; there is {', '.join(map(repr, known))}")
        return self


class ConsoleConfig(Section):
    """The console; see `docs/console.md`."""

    port: int = Field(default=8420, ge=0, le=65535)
    """The port of `toolfold console` on 127.0.0.1; 0 picks a free one."""
    hide_arguments: bool = False
    """Hide arguments, replies, values and error texts."""


class McpConfig(Section):
    """What MCP clients are told; see `docs/mcp.md`."""

    description: Literal["dense", "contract"] = "dense"
    """`dense` lists the tools briefly; `contract` uses the specification's own description, without tools."""
    max_characters: int | None = Field(default=None, ge=1_200)
    """How much of a description the client shows. Default: what is known about the client, or 4,096."""
    yield_after: Duration | None = None
    """A program that runs longer answers with its output so far, and `wait_program` gets the rest. Set it below your
    client's timeout. Default: what is known about the client, or never."""
