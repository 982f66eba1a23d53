"""Setup of the HTTP app from a config, and the server loop with its graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from fastapi import FastAPI

from toolfold.config.build import approval_of, declared_tools, ledger_of, runtime_settings
from toolfold.config.model import Config
from toolfold.config.sections import HttpConfig
from toolfold.errors import UsageError
from toolfold.interfaces.config_runtime import is_granted, open_runtime
from toolfold.interfaces.http.access.continuation_tokens import load_or_create_key, signing_key
from toolfold.interfaces.http.app import create_app
from toolfold.interfaces.http.settings import ApiKey, JwtSettings, Settings, jwt_tenant
from toolfold.interfaces.server.http_server import ConnectionLimits, HttpServer, listen
from toolfold.interfaces.server.local_requests import is_loopback
from toolfold.interfaces.server.stop_signals import on_signal
from toolfold.ledger.base import Ledger
from toolfold.ledger.ledger_factory import default_path, is_shared
from toolfold.ledger.sqlite.store import SqliteLedger
from toolfold.sessions.stores import FolderStore
from toolfold.tools.router_steps import deny
from toolfold.tools.tool import Tool

if TYPE_CHECKING:
    from toolfold.interfaces.http.replica_forwarding import Replicas
    from toolfold.ledger.redis.store import RedisLedger


_log: Final = logging.getLogger(__name__)
ENTRY_NAME: Final = "/exec/programmatic"
_SIGNING_KEY_NAME: Final = "http-token"
_SECONDS: Final = {"timeout": "timeout_seconds", "max_timeout": "max_timeout_seconds"}


async def open_app(config: Config, *, modules: Sequence[Tool] = ()) -> tuple[FastAPI, Ledger]:
    """The app, and the ledger that whoever serves it must close.

    Args:
        config: What it says of `http`, `ledger`, `sessions`, limits and tools.
        modules: The tools of `tools.modules`, loaded.
    """
    require_keys(config.http)
    files = config.http.files
    folder = config.folder / files if files else default_path().parent / "http-sessions"
    ledger = ledger_of(config)
    try:
        if isinstance(ledger, SqliteLedger):
            ledger.hold_alone()  # what one server holds of an execution, another would not know of
        return _app(config, modules, folder, ledger), ledger
    except BaseException:
        await ledger.close()
        raise


def _app(config: Config, modules: Sequence[Tool], folder: Path, ledger: Ledger) -> FastAPI:
    settings = settings_of(config, ledger)
    store = FolderStore(folder)
    replicas = (
        _replicas(config, settings, ledger, load_or_create_key(folder / ".id").hex()) if is_shared(ledger) else None
    )
    if config.servers and not config.http.tools:
        _log.warning("no tenant may call the tools of 'servers', so none is started; name tenants in http.tools")
    runtime_setup = msgspec.structs.replace(
        runtime_settings(config),
        ledger=ledger,
        session_files=store,
        entry_name=ENTRY_NAME,
        interface="http",
        # A server has no person in front of it, unless it asks its clients: then programs pause for a yes.
        approve=approval_of(config, ledger) or (None if config.http.ask_clients else deny),
        before_files=None if replicas is None else replicas.owner.confirm,
    )
    tools = [*modules, *_for_tenants(config, declared_tools(config))]
    runtime = open_runtime(config, tools, runtime_setup, tenants=_tenants(config.http))
    return create_app(runtime, ledger, settings, limits=config.program_limits, replicas=replicas)


def require_keys(http: HttpConfig) -> None:
    """Whoever can be reached from elsewhere must have a key, else `UsageError`."""
    if not http.keys and http.jwt is None and not is_loopback(http.host):
        raise UsageError(
            f"{http.host!r} can be reached from elsewhere, and no key is configured; "
            "set http.keys, or listen on 127.0.0.1"
        )


def _for_tenants(config: Config, tools: Sequence[Tool]) -> list[Tool]:
    """Tools without those that use the operator's secrets, unless a tenant is named that may call them."""
    if config.http.tools or not any(map(is_granted, tools)):
        return list(tools)
    _log.warning("no tenant may call the tools of 'tools.apis' and 'tools.fetch'; name tenants in http.tools")
    return [tool for tool in tools if not is_granted(tool)]


def _replicas(config: Config, settings: Settings, ledger: RedisLedger, files: str) -> Replicas:
    # Imported here: a ledger in a file does not need the packages.
    from toolfold.interfaces.http.replica_forwarding import Replicas, validate_address  # noqa: PLC0415
    from toolfold.service.owners import LEASE_SECONDS, Agreement, LeaseOwner  # noqa: PLC0415

    http, key = config.http, settings.token_key
    owner = LeaseOwner(
        ledger, agreement=Agreement(ledger, key, key_kept_as="" if http.token_key else _SIGNING_KEY_NAME, files=files),
        address=validate_address(http.advertise) if http.advertise else "", base_path=http.base_path,
        lease_seconds=http.lease or LEASE_SECONDS, longest_seconds=settings.max_timeout_seconds,
    )  # fmt: skip
    return Replicas(owner, key)


def settings_of(config: Config, ledger: Ledger) -> Settings:
    """The interface's settings; a key for tokens is made and kept where the config has none."""
    http = config.http
    limits = http.model_dump(exclude={"keys", "jwt", "token_key"}, exclude_none=True)
    options = {_SECONDS.get(name, name): value for name, value in limits.items()}
    return Settings(
        keys={
            tenant: tuple(
                ApiKey(secret=entry.key.get_secret_value(), roles=entry.roles, name=entry.name) for entry in keys
            )
            for tenant, keys in http.keys.items()
        },
        jwt=_jwt(http, config.folder),
        token_key=signing_key(config, ledger, _SIGNING_KEY_NAME),
        **{field.name: options[field.name] for field in fields(Settings) if field.name in options},
    )


def _tenants(http: HttpConfig) -> dict[str, Sequence[str]]:
    """Globs of the server tools that each tenant may call, by the tenant's internal name."""
    if http.jwt is None:
        return dict(http.tools)
    is_claim = bool(http.jwt.tenant_claim)
    return {
        name if name in http.keys else jwt_tenant(name, is_claim=is_claim): globs for name, globs in http.tools.items()
    }


def _jwt(http: HttpConfig, folder: Path) -> JwtSettings | None:
    if http.jwt is None:
        return None
    key = ""
    if http.jwt.public_key_file is not None:
        try:
            key = (folder / http.jwt.public_key_file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the key file {http.jwt.public_key_file!r} of http.jwt cannot be read") from error
    return JwtSettings(
        issuer=http.jwt.issuer, audience=http.jwt.audience, public_key=key, jwks_url=http.jwt.jwks_url or "",
        tenant_claim=http.jwt.tenant_claim or "",
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------
# Listens, and ends in good order: first no new requests, then the running ones, then the guests.

DRAIN_SECONDS: Final = 30
"""From a SIGTERM to the end; paused programs wait in the ledger for the next process."""
_ANSWER_SECONDS: Final = 3
"""Of these, for the answers to programs that are cut off: what is on record can be gone on with."""


async def serve(
    app: FastAPI, host: str, port: int, *, on_listening: Callable[[int], None] | None = None,
    listening: socket.socket | None = None,
) -> None:  # fmt: skip
    """Serve until SIGINT or SIGTERM; a second signal does not wait for running programs.

    `listening` is the address, where it was opened before.
    """
    listening = listening or listen(host, port)
    patience = ConnectionLimits(connections=app.state.max_connections)
    server = HttpServer(
        app, patience, access_log=False, timeout_graceful_shutdown=DRAIN_SECONDS, server_header=False, lifespan="off"
    )

    draining: list[asyncio.Task[None]] = []

    def stop() -> None:
        loop = asyncio.get_running_loop()
        if not draining:
            # At once: what is paused need not wait for the running ones to end.
            draining.append(asyncio.ensure_future(app.state.drain()))
            loop.call_later(DRAIN_SECONDS - _ANSWER_SECONDS, app.state.suspend)
        elif not server.force_exit:
            app.state.suspend()
            loop.call_later(_ANSWER_SECONDS, force)
        server.should_exit = True

    def force() -> None:
        server.force_exit = True

    if on_listening is not None:
        on_listening(listening.getsockname()[1])
    if app.state.replicas is not None:
        app.state.replicas.owner.listens_at(_address(host, listening.getsockname()[1]))
    # Opened here and not by uvicorn: an engine that is not available must reach the caller, who says it in one line.
    with listening, on_signal(stop):
        async with app.router.lifespan_context(app):
            await server.serve(sockets=[listening])
    await asyncio.gather(*draining)
    if not server.started:
        raise UsageError("the server could not start; the lines above say why")


def _address(host: str, port: int) -> str:
    """Default address of a replica; empty where it listens on all of its addresses."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not listened on
        return ""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
