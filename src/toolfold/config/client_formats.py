"""Formats of other clients' files: where they lie, their syntax, and their servers under the usual names.

Claude Code and Desktop, Cursor and VS Code have the usual names; Windsurf, Gemini CLI, Codex, Goose, Continue, opencode
and Zed each have some of their own. Pure but for the folders that it names; knows nothing of what a server may be.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

from toolfold.errors import UsageError
from toolfold.models import Json

SETTINGS: Final = ("settings.json", "config.toml", "config.yaml", "opencode.json", "opencode.jsonc")
"""Files with more than servers, which need not have any."""
_MAX_DIGITS: Final = 1000
_MAX_CHARACTERS: Final = 256 * 1024
"""Of TOML and YAML, which are read slowly."""
_MAX_DEPTH: Final = 100
USUAL_KEYS: Final = ("type", "transport", "command", "args", "env", "envFile", "cwd", "url", "headers")
_OTHER_NAMES: Final = {
    "serverUrl": "url", "httpUrl": "url", "uri": "url", "cmd": "command", "envs": "env", "environment": "env",
    "http_headers": "headers",
}  # fmt: skip
KEYS: Final = (
    *_OTHER_NAMES, "env_keys", "env_vars", "env_http_headers", "bearer_token_env_var", "requestOptions", "config",
)  # fmt: skip
"""Keys of servers besides the usual ones."""
_TYPES: Final = {"local": "stdio", "remote": "http"}
_NOT_SERVERS: Final = ("builtin", "platform", "frontend", "inline_python")
_SECRET: Final = re.compile(r"\$\{\{\s*(?:secrets|inputs)\.(\w+)\s*\}\}")
"""Continue's."""
_BRACED: Final = re.compile(r"(?<!\$)\{env:(\w+)\}")
"""opencode's."""
_BARE: Final = re.compile(r"(?<!\$)\$([A-Za-z_]\w*)")
"""Gemini's and Goose's."""


def client_places(folder: Path, home: Path | None = None) -> list[Path]:
    """Files in which other clients list their servers, those of the folder first."""
    home = home or Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    roaming = Path(os.environ.get("APPDATA", home / "AppData" / "Roaming"))
    applications = {"darwin": home / "Library" / "Application Support", "win32": roaming}.get(sys.platform, config)
    goose, zed = (
        (roaming / "Block/goose/config", roaming / "Zed")
        if sys.platform == "win32"
        else (config / "goose", config / "zed")
    )
    codex = Path(os.environ.get("CODEX_HOME") or home / ".codex")
    of_folder = (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json", ".codex/config.toml",
                 "opencode.json", "opencode.jsonc", ".zed/settings.json")  # fmt: skip
    blocks = sorted(
        [*(folder / ".continue/mcpServers").glob("*.yaml"), *(folder / ".continue/mcpServers").glob("*.json")]
    )
    of_home = (".claude.json", ".cursor/mcp.json", ".codeium/windsurf/mcp_config.json", ".gemini/settings.json",
               ".continue/config.yaml")  # fmt: skip
    of_applications = ("Claude/claude_desktop_config.json", "Code/User/mcp.json")
    return [
        *(folder / name for name in of_folder), *blocks, *(home / name for name in of_home), codex / "config.toml",
        *(applications / name for name in of_applications), goose / "config.yaml", zed / "settings.json",
        *(config / "opencode" / name for name in ("opencode.json", "opencode.jsonc")),
    ]  # fmt: skip


def parse_client_file(text: str, suffix: str) -> Json:
    """TOML, YAML or JSON with comments; raises `ValueError` with one line, or `RecursionError`."""
    if suffix not in (".toml", ".yaml", ".yml"):
        try:
            return json.loads(text, parse_int=_integer)
        except json.JSONDecodeError:
            return json.loads(plain_json(text), parse_int=_integer)
    if len(text) > _MAX_CHARACTERS:
        raise ValueError(f"larger than {_MAX_CHARACTERS:,} characters")
    if suffix == ".toml":
        return _plain(tomllib.loads(text), 0, {})
    try:
        # The loader that knows no types: every scalar is the text that stands there.
        return _plain(yaml.load(text, Loader=yaml.BaseLoader), 0, {})  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(
            f"{place}{getattr(error, 'problem', '') or 'it has characters that YAML does not allow'}"
        ) from None


def _integer(digits: str) -> int | float:
    """One too long to be read is none: only an entry that has it is left out, not the whole file."""
    return int(digits) if len(digits) <= _MAX_DIGITS else math.inf


def _plain(value: Json, depth: int, copies: dict[int, Json]) -> Json:
    """Without dates, which JSON lacks, and with YAML's null as such; shared parts stay shared."""
    if depth > _MAX_DEPTH:
        raise RecursionError
    if isinstance(value, dict | list) and id(value) not in copies:
        if isinstance(value, dict):
            plain: Json = {str(key): _plain(item, depth + 1, copies) for key, item in value.items()}
        else:
            plain = [_plain(item, depth + 1, copies) for item in value]
        copies[id(value)] = plain
    if isinstance(value, dict | list):
        return copies[id(value)]
    if value in ("null", "~"):
        return None
    return value if isinstance(value, str | int | float) else str(value)


def plain_json(text: str) -> str:
    """JSON with comments and commas too many, as VS Code takes it, without both; lines stay where they are."""
    # What is not closed goes on to the end: looked for again from each sign in it, it would take for ever.
    token = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
    bare = token.sub(lambda match: match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0]), text)
    comma = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|,(?=\s*[}\]])', re.DOTALL)
    return comma.sub(lambda match: match[0] if match[0].startswith('"') else " ", bare)


def sections_of(document: Mapping[str, Json], folder: Path, file_name: str) -> Iterator[tuple[str, Mapping[str, Json]]]:
    """The sections with servers, each with its key; later ones win."""
    places = [
        (key, document.get(key)) for key in ("mcpServers", "servers", "mcp_servers", "context_servers", "extensions")
    ]
    within = document.get("mcp")
    if isinstance(within, dict):
        is_opencode = file_name.startswith("opencode")
        places.append(("mcp.servers", None if is_opencode else within.get("servers")))
        typed = {
            name: entry
            for name, entry in within.items()
            if isinstance(entry, dict) and str(entry.get("type")) in _TYPES
        }
        places.append(("mcp", within if is_opencode else typed or None))
    projects = document.get("projects")
    if isinstance(projects, dict):
        project = projects.get(str(folder))
        servers = project.get("mcpServers") if isinstance(project, dict) else None
        # Codex has projects, too, and no servers in them.
        if "mcp_servers" not in document and file_name != "config.toml":
            places.append((f"projects[{str(folder)!r}].mcpServers", servers if servers is not None else {}))
    for key, part in places:
        servers = part
        if isinstance(part, list):  # Continue's
            servers = {str(entry["name"]): entry for entry in part if isinstance(entry, dict) and "name" in entry}
        if isinstance(servers, dict) and (key != "extensions" or not file_name.endswith((".json", ".toml"))):
            yield key, servers


def disabled_in_gemini(document: Mapping[str, Json], names: Iterator[str]) -> set[str]:
    rules = document.get("mcp")
    rules = rules if isinstance(rules, dict) else {}
    allowed, excluded = (
        rules.get(key) if isinstance(rules.get(key), list) else None for key in ("allowed", "excluded")
    )
    return {name for name in names if name in (excluded or ()) or (allowed is not None and name not in allowed)}


def standard_entry(entry: Mapping[str, Json], key: str, *, is_gemini: bool) -> dict[str, Json] | None:
    """The entry under the usual names, references as `${NAME}`; `None` for a part of the client that is no server."""
    inner = entry.get("config")
    result = {**entry, **inner} if key == "extensions" and isinstance(inner, dict) else dict(entry)
    if key == "extensions" and result.get("type") in _NOT_SERVERS:
        return None
    if is_gemini and "type" not in result and "command" not in result:
        result["type"] = "http" if "httpUrl" in result else "sse"
    for other, usual in _OTHER_NAMES.items():
        if other in result:
            result.setdefault(usual, result.pop(other))
    result["type"] = _TYPES.get(str(result.get("type")), result.get("type"))
    _unfold_command(result)
    _add_references(result)
    patterns = [_SECRET, *([_BRACED] if key == "mcp" else []), *([_BARE] if is_gemini or key == "extensions" else [])]
    return {name: _refer(result[name], patterns) for name in USUAL_KEYS if result.get(name) is not None}


def _unfold_command(entry: dict[str, Json]) -> None:
    """One list of opencode, one object of Zed."""
    command = entry.get("command")
    if isinstance(command, list) and command:
        entry["command"], entry["args"] = command[0], command[1:]
    elif isinstance(command, dict):
        entry.update(
            {"command": command.get("path"), **{key: command[key] for key in ("args", "env") if key in command}}
        )


def _add_references(entry: dict[str, Json]) -> None:
    """Variables that Codex and Goose pass on, and headers that hold one."""
    options = entry.get("requestOptions")
    by_option = options.get("headers") if isinstance(options, dict) else None
    env, headers = map(_copy, (entry.get("env"), entry.get("headers") or by_option))
    lists = [entry.get(key) for key in ("env_keys", "env_vars")]
    passed = [name for part in lists if isinstance(part, list) for name in part]
    names = [name.get("name") if isinstance(name, dict) else name for name in passed]
    env.update({name: f"${{{name}}}" for name in names if isinstance(name, str) and name not in env})
    by_header = entry.get("env_http_headers")
    headers.update({name: f"${{{value}}}" for name, value in _copy(by_header).items()})
    if isinstance(entry.get("bearer_token_env_var"), str):
        headers.setdefault("Authorization", f"Bearer ${{{entry['bearer_token_env_var']}}}")
    entry.update({key: values for key, values in (("env", env), ("headers", headers)) if values})


def _copy(part: Json) -> dict[str, Json]:
    return {**part} if isinstance(part, dict) else {}


def _refer(value: Json, patterns: list[re.Pattern[str]]) -> Json:
    if isinstance(value, dict):
        return {name: _refer(item, patterns) for name, item in value.items()}
    if isinstance(value, list):
        return [_refer(item, patterns) for item in value]
    if isinstance(value, str):
        if re.search(r"\{file:[^}]+\}", value):
            raise UsageError("has the content of a file in a value; put it into an environment variable")
        for pattern in patterns:
            value = pattern.sub(r"${\1}", value)
    return value
