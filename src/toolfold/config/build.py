"""Builders from a `Config`: runtime settings, tools, the ledger, the embedder; one place, so all interfaces agree."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from toolfold.config.model import Config, ServerConfig
from toolfold.engines.registry import process_options
from toolfold.errors import UsageError, install_extra
from toolfold.execution.pauses import PausedLimits
from toolfold.execution.request import RuntimeSettings
from toolfold.ledger.base import Ledger, Retention
from toolfold.ledger.ledger_factory import open_ledger
from toolfold.ledger.remote_approval import AskClient, LedgerApproval
from toolfold.models import ToolSpec
from toolfold.sessions import SessionLimits
from toolfold.sources.file_tools import file_tools
from toolfold.sources.function_tools import import_file
from toolfold.sources.shell_commands import shell_tool
from toolfold.tools.error_text import hide, is_secret
from toolfold.tools.policy import Policy
from toolfold.tools.router_steps import Concurrency, wrappers
from toolfold.tools.tool import Globs, Tool, near_names

if TYPE_CHECKING:
    from toolfold.config.sections import ApiConfig, AuthConfig
    from toolfold.programs.proof import ProgramLibrary
    from toolfold.sources.mcp.server_definition import Server
    from toolfold.sources.openapi.source import Api
    from toolfold.sources.web.credentials import ApiAuth
    from toolfold.tools.search import Embedder


_SESSIONS: Final = {"idle": "idle_seconds", "max_age": "max_age_seconds"}
_KEEP: Final = {"max_age": "age_seconds", "max_bytes": "total_bytes", "max_executions": "executions"}


def runtime_settings(config: Config) -> RuntimeSettings:
    """All that the file says of a runtime but tools and ledger."""
    max_calls = {glob: policy.max_calls for glob, policy in config.policies.items() if policy.max_calls}
    in_flight = {glob: policy.max_in_flight for glob, policy in config.policies.items() if policy.max_in_flight}
    by_server = {f"mcp:{escape(server.name)}": server.concurrency for server in config.servers if server.concurrency}
    policy = Policy(
        allow=config.tools.allow, block=config.tools.block or (), ask=config.tools.ask,
        ask_destructive=config.tools.ask_destructive, max_calls=max_calls,
    )  # fmt: skip
    sessions = config.sessions.model_dump(exclude_none=True)
    hide(config.variables.values())
    hide(value for server in config.servers for name, value in server.env.items() if is_secret(name))
    concurrency = Concurrency(sources=by_server, tools=in_flight)
    return RuntimeSettings(
        engine=config.engine,
        engine_options={
            **process_options(config.engine, isolation=config.isolation, **library_options(config)),
            **cluster_options(config, config.engine),
        },
        limits=config.program_limits,
        policy=policy,
        learn=config.tools.learn,
        embedder=embedder_of(config),
        languages=config.execution.languages,
        programs=program_library(config),
        steps=wrappers(policy=policy, concurrency=concurrency, error_details=config.tools.error_details),
        session_limits=SessionLimits(**{_SESSIONS.get(key, key): value for key, value in sessions.items()}),
        paused_limits=PausedLimits(**config.paused.model_dump(exclude_none=True)),
    )


def program_folders(config: Config) -> list[Path]:
    """Folders of saved programs, whether they exist or not."""
    return [config.folder / Path(folder).expanduser() for folder in config.programs.folders]


def program_library(config: Config) -> ProgramLibrary | None:
    """Saved programs of the config; `None` where it names none and has no folder for them."""
    folders = program_folders(config)
    if "programs" not in config.model_fields_set and not any(folder.is_dir() for folder in folders):
        return None
    # Imported here: hardly any config needs it, and every start would wait for it.
    from toolfold.programs.proof import ProgramLibrary  # noqa: PLC0415

    return ProgramLibrary(*folders, models_may=config.programs.models_may, withholds=config.programs.withhold)


# Any: each option of an engine has its own type.
def library_options(config: Config) -> dict[str, Any]:
    options: dict[str, Any] = {"host_libraries": config.libraries.host}
    if config.libraries.packages or config.libraries.sets:
        # Imported here: hardly any config needs it, and every start would wait for it.
        from toolfold.config.library_sets import library_sets  # noqa: PLC0415

        options["library_sets"] = library_sets(config)
    return options


# Any: as above.
def cluster_options(config: Config, engine: str) -> dict[str, Any]:
    """Options of the engine `ray`; none for others."""
    return config.ray.model_dump() if engine == "ray" else {}


def module_sources(config: Config) -> list[str]:
    """`tools.modules`, with files as paths that work from any folder."""
    return [
        str(config.folder / source) if source.endswith(".py") or "/" in source or os.sep in source else source
        for source in config.tools.modules
    ]


def declared_tools(config: Config) -> list[Tool]:
    """All tools that the file itself describes: commands, folders, APIs and `fetch`; interfaces load `modules`."""
    tools = [*command_tools(config), *folder_tools(config)]
    if not config.tools.apis and config.tools.fetch is None:
        return tools
    return [*tools, *_web_tools(config)]


def _web_tools(config: Config) -> list[Tool]:
    """The tools of every API, and `fetch`; an error names the line in the config."""
    # Imported here: the client takes a while, and hardly any config needs it.
    from toolfold.sources.openapi.source import api_tools  # noqa: PLC0415
    from toolfold.sources.web.client import fetch_tool  # noqa: PLC0415

    tools: list[Tool] = []
    for at, api in enumerate(config.tools.apis):
        with config.errors_at("tools", "apis", at):
            tools += api_tools(_api(config, api))
    fetch = config.tools.fetch
    if fetch is not None:
        options = fetch.model_dump(include={"max_bytes", "timeout_seconds"}, exclude_none=True)
        secrets = {host: _auth(auth) for host, auth in fetch.secrets.items()}
        with config.errors_at("tools", "fetch"):
            tools.append(fetch_tool(fetch.hosts, methods=fetch.methods, secrets=secrets, **options))
    return tools


def _api(config: Config, api: ApiConfig) -> Api:
    from toolfold.sources.openapi.source import Api  # noqa: PLC0415  # as above

    options = api.model_dump(exclude={"auth", "spec"}, exclude_none=True)
    is_url = api.spec.startswith(("http://", "https://"))
    return Api(
        spec=api.spec if is_url else config.folder / api.spec,
        auth=None if api.auth is None else _auth(api.auth),
        # What came from a variable is a secret, whatever its header is called.
        secrets=[
            value for value in config.variables.values() if any(value in header for header in api.headers.values())
        ],
        **options,
    )


def _auth(auth: AuthConfig) -> ApiAuth:
    from toolfold.sources.web.credentials import ApiAuth  # noqa: PLC0415  # as above

    options = auth.model_dump(exclude={"type", "secret"}, exclude_none=True)
    return ApiAuth(type=auth.type, secret="" if auth.secret is None else auth.secret.get_secret_value(), **options)


def command_tools(config: Config) -> list[Tool]:
    """`tools.commands` as tools; an error names the line of the command."""
    tools = []
    for at, command in enumerate(config.tools.commands):
        options = {key: getattr(command, key) for key in command.model_fields_set}
        options["cwd"] = str(config.folder / command.cwd) if command.cwd else str(config.folder)
        with config.errors_at("tools", "commands", at):
            tools.append(shell_tool(**options))
    return tools


def folder_tools(config: Config) -> list[Tool]:
    """`tools.folders` as tools; an error names the line of the folder."""
    tools: list[Tool] = []
    for at, folder in enumerate(config.tools.folders):
        options = folder.model_dump(include={"write", "max_bytes"}, exclude_none=True)
        with config.errors_at("tools", "folders", at):
            tools += file_tools(folder.name, config.folder / folder.path, **options)
    return tools


def bridge_servers(config: Config) -> list[Server]:
    """`servers` as the bridge takes them. Needs the extra `mcp`."""
    # Imported here: most of what reads a config bridges nothing.
    from toolfold.sources.mcp.server_definition import OAuth, Server  # noqa: PLC0415

    def make_server(server: ServerConfig) -> Server:
        server = server.resolve_paths(config.folder)
        options = server.model_dump(include=set(Server.__dataclass_fields__) & set(ServerConfig.model_fields))
        # Who brings credentials of its own is not sent to sign in.
        has_credentials = any(name.lower() == "authorization" for name in server.headers)
        auth = OAuth() if server.transport != "stdio" and not has_credentials else None
        return Server(**{"auth": auth, "withheld": config.used_elsewhere(server.name), **options})

    return [make_server(server) for server in config.servers]


def with_policies(config: Config, tools: Iterable[Tool]) -> list[Tool]:
    rules = [(Globs([glob]), policy) for glob, policy in config.policies.items()]
    changed = []
    for tool in tools:
        spec, retry = tool.spec, tool.retry
        for globs, policy in rules:
            if globs.match(tool.spec):
                overrides = policy.model_dump(include={"timeout_seconds", "cache_seconds"}, exclude_none=True)
                spec, retry = replace(spec, **overrides), policy.retry or retry
        changed.append(replace(tool, spec=spec, retry=retry))
    return changed


def ledger_location(config: Config) -> tuple[str | None, str | None]:
    """Location of the config's ledger, valid from any folder, and its key."""
    where, key = config.ledger.where, config.ledger.key
    if where is not None and where != "memory" and "://" not in where:
        where = str(config.folder / where)
    return where, None if key is None else key.get_secret_value()


def approval_of(config: Config, ledger: Ledger, client: AskClient | None = None) -> LedgerApproval | None:
    """Who is asked for approval if not the client alone; `client` asks it for `approvals: both`."""
    if config.approvals == "client":
        return None
    if not ledger.is_lasting:
        raise UsageError(
            f"approvals: {config.approvals} needs a ledger that a console can read; name a file or a server in ledger"
        )
    ask_client = client if config.approvals == "both" else None
    return LedgerApproval(ledger, wait_seconds=config.approvals_wait, client=ask_client)


def ledger_of(config: Config) -> Ledger:
    where, key = ledger_location(config)
    keep = config.ledger.keep.model_dump(exclude_none=True)
    retention = Retention(**{_KEEP[name]: value for name, value in keep.items()}) if keep else None
    return open_ledger(where, keep=retention, key=key)


# ----------------------------------------------------------------------------------------------------
# `tools.embedder` as a function from texts to vectors.

_FASTEMBED: Final = "fastembed"


def embedder_of(config: Config) -> Embedder | None:
    """The embedder of the config, or `None`; an error names its line."""
    embedder_name = config.tools.embedder
    if embedder_name is None:
        return None
    source, _, rest = embedder_name.rpartition(":") if ":" in embedder_name else (embedder_name, "", "")
    with config.errors_at("tools", "embedder"):
        if embedder_name.partition(":")[0] == _FASTEMBED:
            return _fastembed(embedder_name.partition(":")[2])
        return _function(source, rest, config.folder)


def _fastembed(model: str) -> Embedder:
    """With the package's usual model unless one is named; loaded by the first search."""
    if importlib.util.find_spec(_FASTEMBED) is None:
        raise UsageError(f"'fastembed' is not installed; {install_extra('fastembed')}")

    # Any: the package is an extra, and not installed where this is checked.
    @cache
    def loaded() -> Any:
        return importlib.import_module(_FASTEMBED).TextEmbedding(**({"model_name": model} if model else {}))

    def embed(texts: Sequence[str], /) -> Sequence[Sequence[float]]:
        return [vector.tolist() for vector in loaded().embed(texts)]

    return embed


def _function(source: str, name: str, folder: Path) -> Embedder:
    if not source or not name.isidentifier():
        raise UsageError(
            f"{f'{source}:{name}'.strip(':')!r} is not 'fastembed', 'fastembed:MODEL' or 'MODULE:FUNCTION'"
        )
    try:
        module = import_file(str(folder / source)) if source.endswith(".py") else importlib.import_module(source)
    except (ImportError, OSError) as error:
        raise UsageError(f"{source!r} cannot be imported: {error.__class__.__name__}") from error
    embed = getattr(module, name, None)
    if not callable(embed):
        raise UsageError(f"{source!r} has no function {name!r}")
    # A function of the user's; what it returns is checked when it is called.
    return embed  # type: ignore[no-any-return]


# ----------------------------------------------------------------------------------------------------
# Patterns of a config that mean no tool: most likely a typo, and without a word it would go unnoticed.

_log = logging.getLogger(__name__)


class StrayPatterns:
    """Warns of each such pattern once, however often the tools change."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._past_warnings: set[str] = set()

    def warn(self, specs: Iterable[ToolSpec]) -> None:
        """Warn about stray patterns; call it when all tools are known."""
        for line in stray_patterns(self._config, tuple(specs)):
            if line not in self._past_warnings:
                self._past_warnings.add(line)
                _log.warning("%s", line)


def stray_patterns(config: Config, specs: tuple[ToolSpec, ...]) -> Iterator[str]:
    """One line for each; a blocked name only if it is nearly a tool's, for one may block what is not there."""
    names = sorted({name for spec in specs for name in (spec.name, spec.python_name)})
    for place, pattern in _patterns(config):
        if any(Globs([pattern]).match(spec) for spec in specs):
            continue
        near = near_names(pattern, names)
        if near or place[1] != "block":
            hint = f"did you mean {near!r}?" if near else "it has no effect"
            yield f"{config.place(*place)}: no tool matches {pattern!r}; {hint}"


def _patterns(config: Config) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for key in ("allow", "block", "ask"):
        for at, pattern in enumerate(getattr(config.tools, key) or ()):
            yield ("tools", key, at), pattern
    for pattern in config.policies:
        yield ("policies", pattern), pattern
