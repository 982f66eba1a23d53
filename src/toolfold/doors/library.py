"""`from_config`: the door for Python programs that have a `toolfold.yaml`, with the tools of every other door."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from toolfold.config import Config, load_config
from toolfold.config.build import declared_tools, ledger_of, module_sources, runtime_options
from toolfold.config.find import find_config
from toolfold.doors.bridged import open_runtime
from toolfold.errors import UsageError
from toolfold.runtime import Runtime
from toolfold.tools.tool import Tool


# Any: each option of the runtime has its own type.
@asynccontextmanager
async def from_config(config: str | os.PathLike[str] | Config | None = None, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime with all that a `toolfold.yaml` says: tools, servers, policy, limits, engine and ledger.

    Args:
        config: The file; unless given, the nearest `toolfold.yaml` from the current folder upwards.
        options: Arguments of `Runtime`, which count more than the config.

    Raises:
        UsageError: there is no such file, or it has mistakes.
    """
    config = found_config(config)
    options = {**runtime_options(config), **options}
    ledger = options.pop("ledger", None)
    own = None if ledger is not None else ledger_of(config)
    try:
        async with open_runtime(config, config_tools(config), ledger=ledger or own, **options) as runtime:
            yield runtime
    finally:
        if own is not None:
            await own.close()


def found_config(config: str | os.PathLike[str] | Config | None) -> Config:
    """The config itself, read from a file where it is one.

    Raises:
        UsageError: there is no such file, or it has mistakes.
    """
    if isinstance(config, Config):
        return config
    path = Path(config) if config is not None else find_config()
    if path is None:
        raise UsageError(
            "there is no toolfold.yaml here or in a folder above; name one, or write it with toolfold init"
        )
    return load_config(path)


def config_tools(config: Config) -> list[Tool]:
    """The config's own tools: modules, and what it describes itself.

    Raises:
        UsageError: one cannot be loaded.
    """
    # Imported here: it belongs to the command line, which brings more than a library wants at its start.
    from toolfold.interfaces.cli.load_tools import load_tools  # noqa: PLC0415

    return [*load_tools(module_sources(config)), *declared_tools(config)]
