"""MCP servers that other clients know already: Claude Code and Desktop, Cursor, VS Code. Reads; writes nothing."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from toolfold.config.load import MAX_BYTES, shown_path
from toolfold.config.model import ServerConfig
from toolfold.errors import UsageError

_TRANSPORTS: Final = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "http",
    "streamable-http": "http",
    "streamableHttp": "http",
}
_VARIABLE: Final = re.compile(r"\$\{(?:(?P<kind>env|input):)?(?P<name>[^}:]+)(?::-(?P<default>[^}]*))?\}")
_FOLDERS: Final = ("workspaceFolder", "userHome")


@dataclass(frozen=True, slots=True)
class Found:
    """One server as its file has it: nothing filled in, so secrets that were references still are."""

    name: str
    place: str
    """The file and the key, for errors."""
    # Any: whatever stands in the file.
    entry: Mapping[str, Any]
    folder: Path
    """That the file is for: `${workspaceFolder}`."""

    @property
    def transport(self) -> str | None:
        """`stdio`, `http` or `sse`; `None` for one that we do not know."""
        said = self.entry.get("type") or self.entry.get("transport")
        if said is None:
            return "http" if "url" in self.entry and "command" not in self.entry else "stdio"
        return _TRANSPORTS.get(said) if isinstance(said, str) else None


def client_files(folder: Path, home: Path | None = None) -> list[Path]:
    """The files of other clients that there are, those of the folder first."""
    home = home or Path.home()
    in_folder = [folder / ".mcp.json", folder / ".cursor" / "mcp.json", folder / ".vscode" / "mcp.json"]
    in_home = [home / ".claude.json", home / ".cursor" / "mcp.json"]
    match sys.platform:
        case "darwin":
            applications = home / "Library" / "Application Support"
        case "win32":
            applications = Path(os.environ.get("APPDATA", home / "AppData" / "Roaming"))
        case _:
            applications = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    in_home += [applications / "Claude" / "claude_desktop_config.json", applications / "Code" / "User" / "mcp.json"]
    return [path for path in (*in_folder, *in_home) if path.is_file()]


def read_servers(path: Path, *, folder: Path | None = None) -> list[Found]:
    """The servers in one client's file; for Claude Code's own file also those of the folder's project.

    Raises:
        UsageError: the file cannot be read, or has no servers where such files have them.
    """
    name, folder = shown_path(path), (folder or Path.cwd()).resolve()
    document = _document(path, name)
    sections = list(_sections(document, folder))
    if not sections:
        raise UsageError(f"{name}: has no 'mcpServers' and no 'servers'; name a file that lists MCP servers")
    found: dict[str, Found] = {}
    for key, servers in sections:
        for server, entry in servers.items():
            place = f"{name}: {key}.{server}"
            if not isinstance(entry, dict):
                raise UsageError(f"{place}: must be keys with values, got {entry!r}")
            if not entry.get("disabled") and not _is_toolfold(entry):
                found[server] = Found(server, place, entry, folder)
    return list(found.values())


def import_servers(
    path: Path, *, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> tuple[ServerConfig, ...]:
    """The servers in one client's file, ready to connect to; variables are filled in.

    Raises:
        UsageError: one line with the file and the key.
    """
    known = os.environ if environment is None else environment
    return tuple(_checked(found, known) for found in read_servers(path, folder=folder))


def _checked(found: Found, environment: Mapping[str, str]) -> ServerConfig:
    keys = ("command", "args", "env", "cwd") if found.transport == "stdio" else ("url", "headers")
    said = {key: _filled(found.entry[key], f"{found.place}.{key}", found, environment) for key in keys
            if found.entry.get(key) is not None}  # fmt: skip
    if found.transport is None:
        raise UsageError(f"{found.place}.type: must be 'stdio', 'http' or 'sse', got {found.entry.get('type')!r}")
    if isinstance(said.get("env"), dict):
        # Files of other clients may have numbers there, which become text in any environment.
        said["env"] = {
            key: value if isinstance(value, str) else json.dumps(value) for key, value in said["env"].items()
        }
    try:
        return ServerConfig.model_validate({"name": found.name, "transport": found.transport, **said})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        context = first.get("ctx", {})
        steps = [*map(str, first["loc"]), *([str(context["key"])] if "key" in context else [])]
        message = context.get("message") or first["msg"]
        raise UsageError(f"{'.'.join([found.place, *steps])}: {message}") from None


# --- the file -------------------------------------------------------------------------------


def _document(path: Path, name: str) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            # `.claude.json` holds a history besides; it may be large.
            data = file.read(64 * MAX_BYTES)
    except FileNotFoundError:
        raise UsageError(f"no file {name!r} to import; check the path") from None
    except OSError as error:
        raise UsageError(f"{name!r} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
    try:
        document = json.loads(plain_json(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}:{error.lineno}: not JSON: {error.msg.lower()}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{name}: must be keys with values")
    return document


def plain_json(text: str) -> str:
    """JSON with comments and commas too many, as VS Code takes it, without both; lines stay where they are."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    bare = token.sub(lambda one: one[0] if one[0].startswith('"') else re.sub(r"[^\n]", " ", one[0]), text)
    comma = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)
    return comma.sub(lambda one: one[0] if one[0].startswith('"') else " ", bare)


def _sections(document: Mapping[str, Any], folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where servers may stand, with the key; later ones win."""
    within = document.get("mcp")
    places: list[tuple[str, Any]] = [
        ("mcpServers", document.get("mcpServers")),
        ("servers", document.get("servers")),
        ("mcp.servers", within.get("servers") if isinstance(within, dict) else None),
    ]
    projects = document.get("projects")
    if isinstance(projects, dict):
        project = projects.get(str(folder))
        servers = project.get("mcpServers") if isinstance(project, dict) else None
        places.append((f"projects[{str(folder)!r}].mcpServers", servers if servers is not None else {}))
    yield from ((key, servers) for key, servers in places if isinstance(servers, dict))


def _is_toolfold(entry: Mapping[str, Any]) -> bool:
    """Ourselves: bridging that would start us without end."""
    words = [str(entry.get("command", "")), *map(str, entry.get("args") or ())]
    return any(re.search(r"(^|[/\\.])toolfold(\.exe)?$", word) for word in words) and "mcp" in words


# --- variables ------------------------------------------------------------------------------


def variable_of(match: re.Match[str]) -> str | None:
    """The environment variable that stands for a reference; `None` for a folder that only a client knows.

    An `${input:api-key}`, for which VS Code asks a person, is `API_KEY` here.
    """
    if match["kind"] == "input":
        return re.sub(r"\W", "_", match["name"]).upper()
    return None if match["kind"] is None and match["name"] in _FOLDERS else match["name"]


# Any: a value of the file, of any JSON type.
def _filled(value: Any, place: str, found: Found, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(item, f"{place}.{key}", found, environment) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, f"{place}[{at}]", found, environment) for at, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        name = variable_of(match)
        if name is None:
            return str(found.folder if match["name"] == "workspaceFolder" else Path.home())
        # As in a shell: the default also stands in for an empty variable.
        text = environment.get(name)
        if text or (text is not None and match["default"] is None):
            return text
        if match["default"] is None:
            raise UsageError(f"{place}: variable {name!r} is not set; set it")
        return match["default"]

    return _VARIABLE.sub(fill, value)


# Any: the same.
def as_our_variables(value: Any, folder: Path) -> Any:
    """A value with the references that `toolfold.yaml` knows; other dollar signs are doubled."""
    if isinstance(value, dict):
        return {key: as_our_variables(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [as_our_variables(item, folder) for item in value]
    if not isinstance(value, str):
        return value
    parts, at = [], 0
    for match in _VARIABLE.finditer(value):
        parts.append(value[at : match.start()].replace("$", "$$"))
        name = variable_of(match)
        if name is None:
            parts.append(str(folder) if match["name"] == "workspaceFolder" else "${HOME}")
        else:
            parts.append(f"${{{name}}}" if match["default"] is None else f"${{{name}:-{match['default']}}}")
        at = match.end()
    return "".join(parts) + value[at:].replace("$", "$$")
