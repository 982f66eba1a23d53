"""What `toolfold.yaml` may say of APIs and of the web, as types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from pydantic import Field, SecretStr, model_validator

from toolfold.config.section import Globs, Section, Text, Url, wrong_key
from toolfold.config.units import Seconds, Size

_NEEDS: Final = {
    "bearer": (), "basic": ("username",), "header": ("name",), "query": ("name",), "oauth2": ("token_url", "client_id"),
}  # fmt: skip


class AuthConfig(Section):
    """How an API is told who calls. The secret is added after the policy has allowed a call; no program sees it."""

    type: Literal["bearer", "basic", "header", "query", "oauth2"]
    """`oauth2` is the client credentials grant; its tokens are renewed."""
    secret: SecretStr | None = None
    """The token, password, key or client secret. Take it from a variable."""
    command: tuple[Text, ...] | None = None
    """Prints the secret instead; run at the first call, and again when the API refuses what it printed."""
    username: Text | None = None
    """basic: who calls."""
    name: Text | None = None
    """header, query: the name of the header or of the query parameter."""
    token_url: Url | None = None
    """oauth2: where tokens are issued."""
    client_id: Text | None = None
    """oauth2: who calls."""
    scope: Text | None = None
    """oauth2: what for."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> AuthConfig:
        for key in _NEEDS[self.type]:
            if getattr(self, key) is None:
                raise wrong_key(key, f"is missing; auth of type {self.type!r} needs it")
        if (self.secret is None) == (self.command is None):
            raise wrong_key("secret", "or command must be given, and not both")
        return self


class ApiConfig(Section):
    """One API that an OpenAPI document describes; see `docs/openapi.md`."""

    name: Text
    """Before each tool's name, and the module that programs import them from: `from tools.<name> import ...`."""
    spec: Text
    """The document: a file, relative to this file's folder, or a URL. OpenAPI 3.0 or 3.1, JSON or YAML."""
    base_url: Url | None = None
    """Where requests go; left out, to the first server of the document."""
    auth: AuthConfig | None = None
    """How the API is told who calls; needs `base_url`, and is sent nowhere else."""
    include: Globs = ()
    """Only these operations: names, or patterns such as `GET /repos/*`."""
    exclude: Globs = ()
    """Not these operations."""
    read_only: bool = False
    """Only operations that change nothing: GET and HEAD."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Sent to `base_url` with every request."""
    hosts: Globs = ()
    """What else may be reached: hosts that the API redirects to, and private addresses such as `10.0.0.0/8`."""
    timeout_seconds: Seconds | None = None
    """How long one call may take; left out, the program's own time is the limit."""
    max_bytes: Size | None = None
    """Of one reply."""

    @model_validator(mode="after")
    def _says_where_secrets_go(self) -> ApiConfig:
        if self.auth is not None and self.base_url is None:
            raise wrong_key("base_url", "is missing; auth is sent nowhere else, so it must be said here")
        return self


class FetchConfig(Section):
    """The tool `fetch`: a request to any URL of the hosts that are named here."""

    hosts: Globs = Field(min_length=1)
    """Hosts that may be asked: `api.example.com`, `*.example.com`, `localhost:8080`, `10.0.0.0/8`."""
    methods: tuple[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], ...] = Field(("GET",), min_length=1)
    """What may be done there."""
    max_bytes: Size | None = None
    """Of one reply."""
    timeout_seconds: Seconds | None = None
    """How long one call may take."""
    secrets: Mapping[Text, AuthConfig] = Field(default_factory=dict)
    """How each of the hosts is told who calls; sent over HTTPS, or to loopback."""
