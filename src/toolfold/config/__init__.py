"""`toolfold.yaml`: one file for every interface. Only interfaces read it; nothing below them knows that it exists."""

from typing import TYPE_CHECKING

from toolfold.config.discovery import find_config
from toolfold.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from toolfold.config.loader import load_config, parse_config
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
    "CommandConfig", "Config", "ExecutionConfig", "FolderConfig", "LedgerConfig", "LimitsConfig", "PolicyConfig",
    "ServerConfig", "SessionsConfig", "ToolsConfig", "find_config", "load_config", "parse_config",
]  # fmt: skip

# Later: the models take a third of a second.
__getattr__ = lazy_exports(
    __name__,
    {"load_config": "toolfold.config.loader", "parse_config": "toolfold.config.loader",
     **{name: "toolfold.config.model" for name in __all__ if name.endswith("Config")}},
)  # fmt: skip
