"""From a config to a console: of its own, or beside the HTTP door. Listens to nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from toolfold.config.build import approvals_of, declared_tools, ledger_of, runtime_options
from toolfold.config.model import Config
from toolfold.doors.bridged import open_runtime
from toolfold.doors.console.access import Access
from toolfold.doors.console.app import create_console
from toolfold.doors.loopback import is_loopback
from toolfold.errors import UsageError
from toolfold.interfaces.http.access.tokens import kept_key
from toolfold.ledger.base import Ledger
from toolfold.ledger.open import is_shared, usual_path
from toolfold.ledger.remote_approval import LedgerApproval
from toolfold.tools.tool import Tool


def open_console(config: Config, *, modules: Sequence[Tool] = (), may_act: bool = True) -> tuple[FastAPI, Ledger, str]:
    """The app, the ledger that whoever serves it must close, and the token that lets one browser in.

    Raises:
        UsageError: The ledger is one that nobody else can write to.
    """
    ledger = ledger_of(config)
    if not ledger.is_lasting:
        raise UsageError("a ledger in memory has nothing to show to another process; name a file or a server")
    # Programs that run again here may ask: whoever looks at this page is asked.
    approve: dict[str, Any] = approvals_of(config, ledger) or {
        "approve": LedgerApproval(ledger, wait_seconds=config.approvals_wait)
    }
    runtime = open_runtime(
        config, [*modules, *declared_tools(config)], **runtime_options(config), ledger=ledger, door="console", **approve
    )
    access = Access(_key(config, ledger), may_act=may_act)
    app = create_console(runtime, ledger, access, hide_arguments=config.console.hide_arguments)
    return app, ledger, access.new_token()


def mount_console(app: FastAPI, config: Config, ledger: Ledger) -> str:
    """Put the console beside the HTTP door, at `/console`; the path of the link that lets one browser in.

    Where tenants have keys, each signs in with its own and sees its own.
    """
    has_keys = bool(config.http.keys) or config.http.jwt is not None
    access = Access(_key(config, ledger), auth=app.state.auth if has_keys else None)
    only_here = is_loopback(config.http.host)
    console = create_console(
        app.state.runtime, ledger, access, only_here=only_here, hide_arguments=config.console.hide_arguments,
        gate=app.state.gate,
    )  # fmt: skip
    app.mount(f"{config.http.base_path}/console", console)
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def life(of: FastAPI) -> AsyncIterator[None]:
        async with outer(of):
            yield
            # Its followers go before the ledger does.
            await console.state.watch.close()

    app.router.lifespan_context = life
    _describe(app, console, f"{config.http.base_path}/console")
    return f"/console/login?token={access.new_token()}"


def _describe(app: FastAPI, console: FastAPI, prefix: str) -> None:
    """One page for both: what the console answers is in the door's own document."""
    of_door = app.openapi

    def openapi() -> dict[str, Any]:
        found = of_door()
        if f"{prefix}/api/executions" not in found["paths"]:
            own = console.openapi()
            found["paths"] |= {f"{prefix}{path}": item for path, item in own["paths"].items()}
            for kind, named in own.get("components", {}).items():
                known = found.setdefault("components", {}).setdefault(kind, {})
                known |= {name: shape for name, shape in named.items() if name not in known}
        return found

    # As FastAPI documents it: the method is an attribute of the app.
    app.openapi = openapi  # type: ignore[method-assign]


def _key(config: Config, ledger: Ledger) -> bytes:
    """Signs cookies: the same for all replicas, and after a restart."""
    if config.http.token_key is not None:
        return config.http.token_key.get_secret_value().encode()
    if is_shared(ledger):
        return ledger.shared_secret("console")
    return kept_key(usual_path().parent / "console.key")
