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
    """The token, password, key or client secret. Use a variable."""
    command: tuple[Text, ...] | None = None
    """A command that prints the secret; run at the first call, and again if the API refuses the secret."""
    username: Text | None = None
    """basic: the user name."""
    name: Text | None = None
    """header, query: the name of the header or of the query parameter."""
    token_url: Url | None = None
    """oauth2: where tokens are issued."""
    client_id: Text | None = None
    """oauth2: the client id."""
    scope: Text | None = None
    """oauth2: the scope to request."""

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
    """The prefix of each tool's name, and the module that programs import them from: `from tools.<name> import ...`."""
    spec: Text
    """The document: a file, relative to the config's folder, or a URL. OpenAPI 3.0 or 3.1, JSON or YAML."""
    base_url: Url | None = None
    """Where requests go. Default: the first server in the document."""
    auth: AuthConfig | None = None
    """How to authenticate; needs `base_url`, and is sent nowhere else."""
    include: Globs = ()
    """Only these operations: names, or patterns such as `GET /repos/*`."""
    exclude: Globs = ()
    """Not these operations."""
    read_only: bool = False
    """Only operations that change nothing: GET and HEAD."""
    headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    """Headers sent to `base_url` with every request."""
    hosts: Globs = ()
    """Further hosts that may be reached: redirect targets, and private addresses such as `10.0.0.0/8`."""
    timeout_seconds: Seconds | None = None
    """How long one call may take. Default: as long as the program may run."""
    max_bytes: Size | None = None
    """The maximum size of one reply."""

    @model_validator(mode="after")
    def _says_where_secrets_go(self) -> ApiConfig:
        if self.auth is not None and self.base_url is None:
            raise wrong_key("base_url", "is missing; auth is sent nowhere else, so it must be said here")
        return self


class FetchConfig(Section):
    """The tool `fetch`: a request to any URL of the hosts that are named here."""

    hosts: Globs = Field(min_length=1)
    """Hosts that programs may reach: `api.example.com`, `*.example.com`, `localhost:8080`, `10.0.0.0/8`."""
    methods: tuple[Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"], ...] = Field(("GET",), min_length=1)
    """The HTTP methods that programs may use."""
    max_bytes: Size | None = None
    """The maximum size of one reply."""
    timeout_seconds: Seconds | None = None
    """How long one call may take."""
    secrets: Mapping[Text, AuthConfig] = Field(default_factory=dict)
    """How to authenticate at each host; sent only over HTTPS, or to loopback."""
