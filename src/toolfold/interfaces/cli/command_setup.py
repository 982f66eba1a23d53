"""Setup that commands share: config, engine, ledger, tools and common options."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, Unpack, cast

from toolfold.errors import UsageError

if TYPE_CHECKING:
    from toolfold.config import Config
    from toolfold.execution.request import SettingsKeywords
    from toolfold.ledger.base import Ledger
    from toolfold.runtime import Runtime
    from toolfold.tools.tool import Tool

    class EngineChoice(TypedDict):
        """Two settings of a runtime."""

        engine: str
        # Any: each option of an engine has its own type.
        engine_options: dict[str, Any]

    class RuntimeFactory(Protocol):
        """Makes a runtime; the changes count more than a config."""

        def __call__(self, *, tools: Sequence[Tool], **changes: Unpack[SettingsKeywords]) -> Runtime: ...


DEFAULT_ENGINE: Final = "process, else wasm" if sys.platform == "linux" else "auto"
"""As help says it. Where namespaces exist, their absence must be an exit code and not a subset of Python."""


def nearest_config(path: Path | None = None) -> Config | None:
    """The config that the command line names, else the nearest from here upwards, else none."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="toolfold: %(message)s")
    from toolfold.config.discovery import find_config

    path = path or find_config()
    if path is None:
        return None
    from toolfold.config import load_config

    return load_config(path)


# Any: as above.
def choose_engine(
    config: Config | None, *, engine: str | None, isolation: str | None, address: str | None = None, **options: Any
) -> EngineChoice:
    """Engine and isolation: what the command line says, else the config, else the usual; `address` is a cluster's.

    `options` are further ones of the process engine.
    """
    from toolfold.engines.registry import process_options

    configured = {} if config is None else {key: getattr(config, key) for key in config.model_fields_set}
    if engine is None and "engine" not in configured and sys.platform == "linux":
        options["_fallbacks"] = ("wasm",)
    engine = engine or configured.get("engine", "auto")
    isolation = isolation or configured.get("isolation", "namespace")
    cluster: dict[str, Any] = {}
    if config is not None:
        from toolfold.config.build import cluster_options, library_options

        options |= library_options(config)
        cluster = cluster_options(config, engine)
    if address is not None:
        if engine != "ray":
            raise UsageError(f"--address is a Ray cluster's, and the engine is {engine!r}; add --engine ray")
        cluster["address"] = address
    return {"engine": engine, "engine_options": process_options(engine, isolation=isolation, **options) | cluster}


def runtime_factory(config: Config | None, text: str, make: Callable[..., Runtime]) -> RuntimeFactory:
    """Makes a runtime for one program from the config; the caller's settings take precedence."""
    from toolfold.execution.request import RuntimeSettings, change_settings

    if config is None:
        return lambda *, tools, **changes: make(tools=tools, settings=RuntimeSettings(**changes))
    from toolfold.config.build import approval_of, program_library, runtime_settings
    from toolfold.interfaces.config_runtime import config_tools, may_call_servers, open_runtime

    # No server is started for a program that cannot call one.
    library = program_library(config)
    whole = text if library is None else library.with_mentioned(text)
    tenants: dict[str, Sequence[str]] | None = None if may_call_servers(whole) else {}

    def build(*, tools: Sequence[Tool], **changes: Unpack[SettingsKeywords]) -> Runtime:
        local = [*tools, *config_tools(config)]
        if changes.get("approve") is None:
            # cast: commands open their ledgers themselves.
            changes["approve"] = approval_of(config, cast("Ledger", changes["ledger"]))
        settings = change_settings(runtime_settings(config), changes)
        return open_runtime(config, local, settings, tenants=tenants, make=make)

    return build


# ----------------------------------------------------------------------------------------------------
# Which ledger a command uses: the one on its command line, the config's, or the usual one.

KEY_VARIABLE: Final = "TOOLFOLD_LEDGER_KEY"


def open_for_command(where: str | None, config: Config | None = None) -> Ledger:
    """The ledger that the command line names, else the config's; the key of a sealed one is in the environment."""
    from toolfold.ledger.ledger_factory import open_ledger

    if where is None and config is not None and config.ledger.model_fields_set:
        from toolfold.config.build import ledger_of

        return ledger_of(config)
    return open_ledger(where, key=os.environ.get(KEY_VARIABLE))
