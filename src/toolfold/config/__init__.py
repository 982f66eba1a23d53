"""`toolfold.yaml`: one file for every door. Only doors read it; nothing below them knows that it exists."""

from toolfold.config.load import find_config, load_config, parse_config
from toolfold.config.model import (
    CommandConfig,
    Config,
    ExecutionConfig,
    FolderConfig,
    LedgerConfig,
    LimitsConfig,
    PolicyConfig,
    ServerConfig,
    SessionsConfig,
    ToolsConfig,
)

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
