"""Sections of a config and their field types: sizes, durations and counts as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from toolfold.engines.registry import BUILT_IN, engine_names, known_engine
from toolfold.errors import UsageError

# ----------------------------------------------------------------------------------------------------
# Sizes, durations and counts as people write them: `64MiB`, `30m`, `1000`.
#
# Numbers may also come as text, because `${VAR}` gives text.

_SIZES: Final = {
    "": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30,
}  # fmt: skip
_DURATIONS: Final = {"": 1.0, "MS": 0.001, "S": 1.0, "M": 60.0, "H": 3600.0, "D": 86400.0, "W": 7 * 86400.0}
_MEASURE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_LARGEST: Final = 2**53
"""Beyond it a float no longer counts every integer; nobody means such a size."""
_VARIABLE: Final = {"type": "string", "pattern": r"\$\{"}


def must_be(expected: str) -> PydanticCustomError:
    """The error of a value that is something else; `load` adds what it is."""
    return PydanticCustomError("must_be", "must be {what}", {"what": expected})


# Any: what the YAML file holds may be anything.
def _parse_measure(value: Any, units: Mapping[str, float], expected: str) -> float:
    number = _number_of(value, units)
    if number is None or not math.isfinite(number) or not 0 < number <= _LARGEST:
        raise must_be(expected)
    return number


def _number_of(value: Any, units: Mapping[str, float]) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    match = _MEASURE.fullmatch(value.strip()) if isinstance(value, str) else None
    factor = units.get(match[2].upper()) if match else None
    return None if match is None or factor is None else float(match[1]) * factor


def _size(value: Any) -> int:
    expected = "a size such as 65536, 64KiB or 10MB"
    size = _parse_measure(value, _SIZES, expected)
    if size != int(size):
        raise must_be(f"{expected}, in whole bytes")
    return int(size)


def _duration(value: Any) -> float:
    return _parse_measure(value, _DURATIONS, "a duration above 0 such as 30s, 15m, 2h or 7d; a number is seconds")


def seconds_of(text: str) -> float | None:
    """A duration as people write it; `None` if it is none."""
    try:
        return _duration(text)
    except PydanticCustomError:
        return None


def _seconds(value: Any) -> float:
    return _parse_measure(value, {"": 1.0}, "a number of seconds above 0")


def _count(value: Any) -> int:
    expected = "a whole number above 0"
    number = _parse_measure(value, {"": 1.0}, expected)
    if number != int(number):
        raise must_be(expected)
    return int(number)


def _schema(kind: str, pattern: str | None = None) -> WithJsonSchema:
    number = {"type": kind, "exclusiveMinimum": 0}
    texts = [_VARIABLE] if pattern is None else [{"type": "string", "pattern": pattern}, _VARIABLE]
    return WithJsonSchema({"anyOf": [number, *texts]})


Size = Annotated[
    int, BeforeValidator(_size), _schema("integer", r"^\s*\d+(\.\d+)?\s*([Bb]|[KkMmGg][Ii]?[Bb])?\s*$")
]  # fmt: skip
"""Bytes."""
Duration = Annotated[
    float, BeforeValidator(_duration), _schema("number", r"^\s*\d+(\.\d+)?\s*(ms|[smhdwSMHDW])?\s*$")
]  # fmt: skip
"""Seconds; the text may have a unit."""
Seconds = Annotated[float, BeforeValidator(_seconds), _schema("number")]
"""Seconds, for keys that say so in their name."""
Count = Annotated[int, BeforeValidator(_count), _schema("integer")]


def _price(value: Any) -> float:
    number = _number_of(value, {"": 1.0})
    if number is None or not 0 <= number <= _HIGHEST_PRICE:
        raise must_be("US dollars for a million tokens, such as 3 or 0.25")
    return float(number)


_HIGHEST_PRICE: Final = 1_000_000
Price = Annotated[
    float, BeforeValidator(_price),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0, "maximum": _HIGHEST_PRICE}, _VARIABLE]}),
]  # fmt: skip
"""US dollars for a million tokens."""


# ----------------------------------------------------------------------------------------------------
# What every part of `toolfold.yaml` is made of: sections without stray keys, and texts of a form.


def wrong_key(key: str, message: str) -> PydanticCustomError:
    """An error of one key, raised by a check that sees the whole section."""
    return PydanticCustomError("key", "{message}", {"message": message, "key": key})


def check_texts(key: str, texts: Iterable[str], *, is_one_line: bool = False) -> None:
    """Refuse a text that no process and no request can be given."""
    for text in texts:
        if "\0" in text:
            raise wrong_key(key, "has a NUL character, which cannot be passed on; remove it")
        if any("\ud800" <= sign <= "\udfff" for sign in text):
            raise wrong_key(key, "has half of a surrogate pair, which cannot be passed on; write the whole character")
        if is_one_line and any(sign < " " and sign != "\t" for sign in text):
            raise wrong_key(key, "has a line break or another control character; remove it")


class Section(BaseModel):
    """A part of the file: no key that is not listed, nothing changed later."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True)


def _check(is_good: Callable[[str], object], expected: str) -> AfterValidator:
    def check(text: str) -> str:
        if not is_good(text):
            raise must_be(expected)
        return text

    return AfterValidator(check)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        # Port 0 is nowhere; reading one that is no number raises.
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_good and not re.search(r"\s", text)


Text = Annotated[str, StringConstraints(min_length=1)]
Url = Annotated[str, _check(_is_url, "a URL such as http://localhost:8080/mcp")]
Globs = tuple[Text, ...]


_NEEDS: Final = {
    "bearer": (), "basic": ("username",), "header": ("name",), "query": ("name",), "cookie": ("name",),
    "oauth2": ("token_url", "client_id"),
}  # fmt: skip


class AuthConfig(Section):
    """How an API is told who calls. The secret is added after the policy has allowed a call; no program sees it."""

    type: Literal["bearer", "basic", "header", "query", "cookie", "oauth2"]
    """`oauth2` is the client credentials grant; its tokens are renewed."""
    secret: SecretStr | None = None
    """The token, password, key or client secret. Use a variable."""
    command: tuple[Text, ...] | None = None
    """A command that prints the secret; run at the first call, and again if the API refuses the secret."""
    username: Text | None = None
    """basic: the user name."""
    name: Text | None = None
    """header, query, cookie: the name of the header, of the query parameter or of the cookie."""
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


# ----------------------------------------------------------------------------------------------------
# What `policies` in a `toolfold.yaml` may say of the calls of some tools, as types.


class PolicyConfig(Section):
    """How calls of some tools go."""

    timeout_seconds: Seconds | None = None
    """The maximum duration of one call."""
    retry: Literal["never", "safe", "always"] | None = None
    """When to retry; `safe`, the default, retries only if a second call can do no harm."""
    cache_seconds: Seconds | None = None
    """How long a reply is reused for the same arguments."""
    max_calls: Count | None = None
    """How often one program may call one tool."""
    max_in_flight: Count | None = None
    """How many calls of one tool run at a time; others wait."""


# ----------------------------------------------------------------------------------------------------
# `libraries` in `toolfold.yaml`: packages for programs.

# Names and versions only: an address or a path would bring code that no lock can vouch for, and `-` is an option.
# No line breaks: what follows one may be an option again.
_CLAUSE: Final = r"(?:==|!=|<=|>=|~=|<|>)[ \t]*[A-Za-z0-9.*+!_-]+[ \t]*"
_PACKAGE: Final = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._, -]+\])?[ \t]*"
    rf"(?:{_CLAUSE}(?:,[ \t]*{_CLAUSE})*)?"
)


_SET_NAME: Final = re.compile(r"(?!(?:bare|data|science|main)$)[a-z][a-z0-9_]{0,30}")
Package = Annotated[str, _check(_PACKAGE.fullmatch, "a package name with an optional version, such as networkx==3.4.2")]
Module = Annotated[
    str, _check(lambda text: all(map(str.isidentifier, text.split("."))), "the name of a module, such as networkx")
]
SetName = Annotated[
    str, _check(_SET_NAME.fullmatch, "lower-case letters, digits and underscores, and not bare, data, science or main")
]


class LibrarySetConfig(Section):
    """Packages that are installed for programs by `toolfold libraries sync`."""

    packages: tuple[Package, ...] = ()
    """Packages from the package index, optionally with a version: `networkx==3.4.2`."""
    preload: tuple[Module, ...] = ()
    """Modules to import once for all programs of the set, outside the locked sandbox. List only modules that you
    trust."""


# ----------------------------------------------------------------------------------------------------
# What `toolfold.yaml` may say of the HTTP interface and of the MCP interface.

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
    name: Text = ""
    """Who has the key; decisions at a console are on record under this name."""


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
        "name": {"type": "string", "description": "Who has the key; decisions are on record under this name."},
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
    """The HTTP interface; see `docs/http.md`."""

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
    def _check_keys(self) -> HttpConfig:
        tenant_by_key: dict[str, str] = {}
        for tenant, keys in self.keys.items():
            if not keys:
                raise wrong_key(f"keys.{tenant}", "is empty; give it a key, or leave the tenant out")
            for secret in (entry.key.get_secret_value() for entry in keys):
                if secret in tenant_by_key:
                    raise wrong_key(f"keys.{tenant}", f"repeats a key of {tenant_by_key[secret]!r}; give each its own")
                tenant_by_key[secret] = tenant
        return self

    @model_validator(mode="after")
    def _check_tenants(self) -> HttpConfig:
        if self.jwt is not None and self.jwt.tenant_claim is not None:
            return self  # tenants come with their tokens
        tenants = [*self.keys, *([] if self.jwt is None else [self.jwt.issuer])] or [OPEN_TENANT]
        for tenant in self.tools:
            if tenant not in tenants:
                raise wrong_key(f"tools.{tenant}", f"is not a tenant; the tenants are {', '.join(map(repr, tenants))}")
        return self


class ConsoleConfig(Section):
    """The console; see `docs/console.md`."""

    port: int = Field(default=8420, ge=0, le=65535)
    """The port of `toolfold console` on 127.0.0.1; 0 picks a free one."""
    hide_arguments: bool = False
    """Hide arguments, replies, values and error texts."""


class PriceConfig(Section):
    """What a million tokens of a model cost, in US dollars."""

    input: Price
    """Of input tokens."""
    output: Price
    """Of output tokens."""
    cached: Price | None = None
    """Of input tokens that the provider has cached. Default: as `input`."""


class McpConfig(Section):
    """What MCP clients are told; see `docs/mcp.md`."""

    description: Literal["dense", "contract"] = "dense"
    """`dense` lists the tools briefly; `contract` uses the specification's own description, without tools."""
    max_characters: int | None = Field(default=None, ge=1_200)
    """How much of a description the client shows. Default: what is known about the client, or 4,096."""
    offers_small: bool = False
    """Tools that only read and have replied little so far are also listed as tools, for single calls."""
    yield_after: Duration | None = None
    """A program that runs longer answers with its output so far, and `wait_program` gets the rest. Set it below your
    client's timeout. Default: what is known about the client, or never."""


class ProgramsConfig(Section):
    """Saved programs; see `docs/saved-programs.md`."""

    folders: tuple[Text, ...] = Field(default=("programs",), min_length=1)
    """Where saved programs are, relative to the config's folder; the first takes new ones. `~` is your home folder."""
    models_may: Literal["nothing", "propose", "save"] = "nothing"
    """What `save_program` does for models: `propose` waits until a person accepts it; `nothing` offers no such tool."""
    withhold: bool = False
    """Do not offer programs that their record proves no more: edited, or with a tool whose schema has changed."""


# ----------------------------------------------------------------------------------------------------
# The name of an engine in a `toolfold.yaml`: a built-in one, or one that another distribution registers.


def _check_engine(name: str) -> str:
    try:
        return known_engine(name)
    except UsageError:
        *first, last = map(repr, engine_names())
        raise must_be(f"{', '.join(first)} or {last}") from None


class RayConfig(Section):
    """The cluster for the engine `ray`."""

    address: Text = "auto"
    """`HOST:PORT` of the cluster's head; `auto` finds the one that this machine is part of, or `RAY_ADDRESS`."""
    cpus: float = Field(default=0.0, ge=0)
    """How many CPUs Ray reserves on each node."""
    wait_seconds: Seconds = 60.0
    """How long a program waits if no node is available."""
    lost_after_seconds: Seconds = 20.0
    """How long a node may be silent before it counts as lost."""
    tools_on_nodes: list[Text] = Field(default_factory=list)
    """Tools that each node calls itself: read-only or idempotent functions of modules installed on every node."""


EngineName = Annotated[str, AfterValidator(_check_engine), Field(examples=[*BUILT_IN])]
