"""What `toolfold.yaml` may say of the HTTP door and of the MCP door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr, StringConstraints, model_validator

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
    """A PEM file, relative to this file's folder."""
    jwks_url: Url | None = None
    """Where the keys are fetched instead."""
    tenant_claim: Text | None = None
    """The claim that tells tenants apart, such as `sub`; left out, all of this issuer are one tenant."""

    @model_validator(mode="after")
    def _has_one_key(self) -> JwtConfig:
        if (self.public_key_file is None) == (self.jwks_url is None):
            raise wrong_key("public_key_file", "or jwks_url must be given, and not both")
        return self


class HttpConfig(Section):
    """The HTTP door; see `docs/http.md`."""

    host: Text = "127.0.0.1"
    """The address to listen on; any other than loopback needs keys."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The port to listen on; 0 takes a free one."""
    base_path: Annotated[str, StringConstraints(pattern=r"^(/[A-Za-z0-9._-]+)*$")] = ""
    """Before every path, such as `/v1`."""
    keys: Mapping[Text, SecretStr] = Field(default_factory=dict)
    """The API key of each tenant. Take them from variables."""
    jwt: JwtConfig | None = None
    """Signed tokens instead of API keys, or beside them."""
    tools: Mapping[Text, Globs] = Field(default_factory=dict)
    """Tenants whose programs may call the tools of `servers`, `tools.apis` and `tools.fetch`, and which of them:
    `{acme: ["mcp__crm__*"]}`."""
    token_key: SecretStr | None = None
    """Signs continuation tokens; left out, one is made and kept in the state folder, or in a ledger on a server."""
    advertise: Text | None = None
    """Where other replicas reach this one, such as `http://10.0.0.5:8000`; left out, `host` and `port`."""
    lease: Duration | None = None
    """How long replicas wait for one that is gone before they take over what it held."""
    files: Text | None = None
    """Where sessions keep their files, relative to this file's folder; left out, the state folder."""
    max_rounds: Count | None = None
    """Pauses of one execution."""
    timeout: Duration | None = None
    """Of an execution whose request names none; pauses count."""
    max_timeout: Duration | None = None
    """The longest that a request may ask for."""
    starts_per_minute: Count | None = None
    """Executions and uploads that one tenant may start."""
    running: Count | None = None
    """Programs of one tenant that run at the same time; left out, as many as there are processors, at least 2."""
    waiting: Count | None = None
    """Requests of one tenant that may wait for their turn."""
    paused: Count | None = None
    """Executions of one tenant that may be paused at the same time."""
    max_body_bytes: Size | None = None
    """Of a request."""
    max_upload_bytes: Size | None = None
    """Of an upload."""
    max_connections: Count | None = None
    """Of all clients; where there are more, those that only wait are cut. Left out, half of the open files allowed."""
    max_held_bytes: Size | None = None
    """Of all request bodies of one tenant that are held at the same time; beyond it a request is told to come later."""
    preload_data: bool = True
    """Have guests with numpy, pandas and matplotlib wait from the start; takes memory that others can do without."""

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
    """The port of `toolfold console` on 127.0.0.1; 0 takes a free one."""
    hide_arguments: bool = False
    """Show neither arguments nor replies nor values."""


class McpConfig(Section):
    """What MCP clients are told; see `docs/mcp.md`."""

    description: Literal["dense", "contract"] = "dense"
    """`dense` lists the tools in few words; `contract` has the specification's own description, and no tools."""
    max_characters: int | None = Field(default=None, ge=1_200)
    """How much of a description the client shows; left out, what is known of the client, or 4,096."""
    yield_after: Duration | None = None
    """A program that runs for longer answers with what it printed so far, and `wait_program` gets the rest. Set it
    below the timeout of your client; left out, what is known of the client, or never."""
