"""`toolfold.yaml`: one file for every interface. Only interfaces read it; nothing below them knows that it exists."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from toolfold.config.find import find_config

if TYPE_CHECKING:
    from toolfold.config.load import load_config, parse_config
    from toolfold.config.model import (
        CommandConfig,
        Config,
        ExecutionConfig,
        FolderConfig,
        LedgerConfig,
        LimitsConfig,
        ServerConfig,
        SessionsConfig,
        ToolsConfig,
    )
    from toolfold.config.sections import PolicyConfig

__all__ = [
    "CommandConfig",
    "Config",
    "ExecutionConfig",
    "FolderConfig",
    "LedgerConfig",
    "LimitsConfig",
    "PolicyConfig",
    "ServerConfig",
    "SessionsConfig",
    "ToolsConfig",
    "find_config",
    "load_config",
    "parse_config",
]

_OF_LOAD: Final = ("load_config", "parse_config")


# Any: the type of each name is known to mypy from the imports above. Later: the models take a third of a second.
def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'toolfold.config' has no attribute {name!r}")
    module = import_module("toolfold.config.load" if name in _OF_LOAD else "toolfold.config.model")
    value = globals()[name] = getattr(module, name)
    return value
