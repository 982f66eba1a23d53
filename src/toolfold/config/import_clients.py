"""Import of MCP servers from the files of other clients, `client_formats` says which. Reads; writes nothing.

One entry that cannot be used never costs the others: it is left out, and said to be.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from toolfold.config.client_formats import (
    KEYS,
    SETTINGS,
    USUAL_KEYS,
    client_places,
    disabled_in_gemini,
    parse_client_file,
    sections_of,
    standard_entry,
)
from toolfold.config.discovery import display_path
from toolfold.config.loader import MAX_BYTES, unset_text, with_env_file
from toolfold.config.model import ServerConfig
from toolfold.errors import UsageError
from toolfold.models import Json

_log: Final = logging.getLogger(__name__)
_TRANSPORTS: Final = {
    "stdio": "stdio", "sse": "sse", "http": "http", "streamable-http": "http", "streamableHttp": "http",
    "streamable_http": "http",
}  # fmt: skip
VARIABLE: Final = re.compile(
    r"\$\{(?:(?P<kind>env|input):)?(?P<name>[^}:\x00-\x1f\x7f-\x9f\u2028\u2029]+)(?::-(?P<default>[^}]*))?\}"
)
"""`${NAME}`, `${env:NAME}`, `${input:id}`, each of them with `:-default` if need be; no name has a line break."""
OF_STDIO: Final = ("command", "args", "env", "envFile", "cwd")
OF_URL: Final = ("url", "headers")
OUR_KEYS: Final = {"envFile": "env_file"}
_OF_ENTRY: Final = (*USUAL_KEYS, *KEYS)
# `.claude.json` holds a history besides; it may be large.
_MAX_FILE_BYTES: Final = 64 * MAX_BYTES
_MAX_DEPTH: Final = 20
_MAX_ENTRY_CHARACTERS: Final = 64 * 1024
_MAX_SHOWN: Final = 80
_CLAUDE_LISTS: Final = ("disabledMcpServers", "disabledMcpjsonServers")


@dataclass(frozen=True, slots=True)
class ClientServer:
    """Server as its file defines it: variables are not filled in, so secrets stay references."""

    name: str
    place: str
    """The file and the key, for errors."""
    entry: Mapping[str, Json]
    folder: Path
    """That the file is for: `${workspaceFolder}`."""

    @property
    def transport(self) -> str | None:
        """`stdio`, `http` or `sse`; `None` for one that we do not know."""
        transport_name = self.entry.get("type") or self.entry.get("transport")
        if transport_name is None:
            return "http" if "url" in self.entry and "command" not in self.entry else "stdio"
        return _TRANSPORTS.get(transport_name) if isinstance(transport_name, str) else None

    def client_variable(self, name: str) -> str | None:
        """What a client's own variable stands for: a folder, or a part of one; `None` for all others."""
        values = {
            "workspaceFolder": str(self.folder), "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()), "pathSeparator": os.sep, "/": os.sep,
        }  # fmt: skip
        return values.get(name)


@dataclass(slots=True)
class ClientServers:
    """Servers and mistakes found in one file."""

    found: list[ClientServer] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    """Entries that cannot be used, and why."""
    disabled: list[str] = field(default_factory=list)
    """Entries that their client does not use either."""


def client_files(folder: Path, home: Path | None = None) -> list[Path]:
    return [path for path in client_places(folder, home) if path.is_file()]


def read_servers(path: Path, *, folder: Path | None = None, is_named: bool = True) -> ClientServers:
    """The servers in one client's file; for Claude Code's own file also those of the folder's project.

    Settings that nobody named need not have any.
    """
    name, folder = display_path(path), (folder or Path.cwd()).resolve()
    document = _document(path, name)
    sections = list(sections_of(document, folder, path.name))
    if not sections and (is_named or path.name not in SETTINGS):
        raise UsageError(f"{name}: has no 'mcpServers' and no 'servers'; name a file that lists MCP servers")
    entries = [entry for _, servers in sections for entry in servers.values()]
    is_gemini = path.parent.name == ".gemini" or any(
        isinstance(entry, dict) and "httpUrl" in entry for entry in entries
    )
    off = _disabled_in_claude_code(folder) if path.name in (".mcp.json", ".claude.json") else {}
    if is_gemini:
        off = dict.fromkeys(disabled_in_gemini(document, (server for _, part in sections for server in part)), name)
    read, servers_by_name = ClientServers(), dict[str, ClientServer]()
    for key, servers in sections:
        for server, entry in servers.items():
            place = f"{name}: {key}.{one_line(server)}"
            reason = _why_unusable(entry)
            if not server.isprintable():
                read.mistakes.append(f"{place}: has a name with a line break or another invisible character; rename it")
            elif reason:
                read.mistakes.append(f"{place}: {reason}")
            elif entry.get("disabled") or str(entry.get("enabled")).lower() == "false":
                read.disabled.append(f"{place}: is disabled there")
            elif server in off:
                read.disabled.append(f"{place}: is disabled in {off[server]}")
            else:
                try:
                    usual = standard_entry(entry, key, is_gemini=is_gemini)
                except UsageError as error:
                    read.mistakes.append(f"{place}: {error}")
                    continue
                if usual is not None and not _is_toolfold(usual):
                    servers_by_name[server] = ClientServer(server, place, usual, folder)
    read.found = list(servers_by_name.values())
    return read


def import_servers(
    path: Path, *, folder: Path | None = None, environment: Mapping[str, str] | None = None,
    left_out: dict[str, str] | None = None,
) -> tuple[ServerConfig, ...]:  # fmt: skip
    """The servers in one client's file, ready to connect to; variables are filled in.

    What cannot be used is left out, with one line in the log; `left_out` is given the names, each with the reason.

    Raises:
        UsageError: one line with the file and the key.
    """
    variables = os.environ if environment is None else environment
    read = read_servers(path, folder=folder)
    servers = []
    for server in read.found:
        try:
            servers.append(with_env_file(_fill_variables(server, variables), server.folder))
        except UsageError as error:
            read.mistakes.append(f"{server.place}: {error}")
            if left_out is not None:
                left_out[server.name] = str(error).partition(";")[0]
    for mistake in read.mistakes:
        _log.warning("left out: %s", mistake)
    return tuple(servers)


def _fill_variables(server: ClientServer, environment: Mapping[str, str]) -> ServerConfig:
    unset: list[str] = []

    def fill(match: re.Match[str]) -> str:
        place = server.client_variable(match["name"]) if match["kind"] is None else None
        if place is not None:
            return place
        name = variable_of(match)
        # As in a shell: the default also stands in for an empty variable.
        text = environment.get(name)
        if text or (text is not None and match["default"] is None):
            return text
        if match["default"] is None:
            unset.append(name)
        return match["default"] or ""

    entry = entry_of(server, lambda text, *_: VARIABLE.sub(fill, text))
    if unset:
        raise UsageError(unset_text(unset))
    return check_server(entry)


def entry_of(server: ClientServer, change: Callable[[str, str, str], str]) -> dict[str, Json]:
    """The entry under the names of `toolfold.yaml`; `change` gets each text, its key and its name there or number."""
    if server.transport is None:
        values = server.entry.get("type") or server.entry.get("transport")
        raise UsageError(f"type must be 'stdio', 'http' or 'sse', got {_describe(values)}")
    keys = OF_STDIO if server.transport == "stdio" else OF_URL
    values = {
        OUR_KEYS.get(key, key): _change_texts(server.entry[key], key, change) for key in keys if server.entry.get(key)
    }
    return {"name": server.name, "transport": server.transport, **values}


def _change_texts(value: Json, key: str, change: Callable[[str, str, str], str]) -> Json:
    if key in ("env", "headers") and isinstance(value, dict):
        return {name: change(_as_text(item), key, name) for name, item in value.items() if item is not None}
    if key == "args" and isinstance(value, list):
        return [change(_as_text(item), key, str(at)) for at, item in enumerate(value, 1)]
    return change(value, key, "") if isinstance(value, str) else value


def _as_text(value: Json) -> str:
    """Files of other clients may have numbers where a process gets text."""
    return value if isinstance(value, str) else json.dumps(value)


def check_server(entry: Mapping[str, Json]) -> ServerConfig:
    """The server that an entry describes; an error is one line with the key."""
    try:
        return ServerConfig.model_validate(entry)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        context = first.get("ctx", {})
        steps = [*map(str, first["loc"]), *([str(context["key"])] if "key" in context else [])]
        message = context.get("message") or first["msg"][:1].lower() + first["msg"][1:]
        raise UsageError(f"{'.'.join(steps)}: {message}") from None


# --- the file -------------------------------------------------------------------------------


def _document(path: Path, name: str) -> Mapping[str, Json]:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"no file {name!r} to import; check the path") from None
    except OSError as error:
        raise UsageError(f"{name!r} cannot be read: {(error.strerror or 'unknown reason').lower()}") from None
    if len(data) > _MAX_FILE_BYTES:
        raise UsageError(f"{name}: is larger than {_MAX_FILE_BYTES:,} bytes; name a file that lists only MCP servers")
    try:
        document = parse_client_file(data.decode("utf-8-sig"), path.suffix)
    except UnicodeDecodeError:
        raise UsageError(f"{name}: not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise UsageError(f"{name}:{error.lineno}: not JSON: {error.msg.lower()}") from None
    except RecursionError:
        raise UsageError(f"{name}: is nested too deeply to be read; remove unneeded brackets") from None
    except ValueError as error:
        raise UsageError(f"{name}: not {path.suffix[1:].upper()}: {one_line(str(error))}") from None
    if not isinstance(document, dict):
        raise UsageError(f"{name}: must be keys with values")
    return document


def _why_unusable(entry: Json) -> str:
    """Why no server can be made of an entry; empty if one can."""
    if not isinstance(entry, dict):
        return f"must be keys with values, got {_describe(entry)}"
    characters, level = 0, [entry[key] for key in _OF_ENTRY if key in entry]
    for _ in range(_MAX_DEPTH):
        for value in level:
            characters += len(value) if isinstance(value, str | list | dict) else 0
            if isinstance(value, float) and not math.isfinite(value):
                return "has a number that JSON does not have, or that is too large; write it as text"
        if characters > _MAX_ENTRY_CHARACTERS:
            return f"is larger than {_MAX_ENTRY_CHARACTERS:,} characters; shorten it"
        level = [item for value in level for item in _items(value)]
        if not level:
            return ""
    return f"is nested more than {_MAX_DEPTH} levels deep; remove unneeded brackets"


def _items(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    return value if isinstance(value, list) else []


def _describe(value: Json) -> str:
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "keys with values"
    return "null" if value is None else one_line(repr(value))


def one_line(text: str) -> str:
    """A text of another client's file as a part of a line: nothing that ends the line or moves on a terminal."""
    plain = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text[:_MAX_SHOWN])
    return plain if len(text) <= _MAX_SHOWN else f"{plain}..."


def _disabled_in_claude_code(folder: Path) -> dict[str, str]:
    """Servers that Claude Code keeps off in this folder, and the file that says so."""
    files = [folder / ".claude" / "settings.json", folder / ".claude" / "settings.local.json",
             Path.home() / ".claude" / "settings.json", Path.home() / ".claude.json"]  # fmt: skip
    off: dict[str, str] = {}
    for path in files:
        try:
            document = _document(path, display_path(path))
        except UsageError:
            continue  # it is not there, or not ours to judge
        projects = document.get("projects")
        project = projects.get(str(folder)) if isinstance(projects, dict) else None
        for settings in (document, project if isinstance(project, dict) else {}):
            for key in _CLAUDE_LISTS:
                names = settings.get(key)
                off.update({str(name): display_path(path) for name in names} if isinstance(names, list) else {})
    return off


def _is_toolfold(entry: Mapping[str, Json]) -> bool:
    """Ourselves: bridging that would start us without end."""
    arguments = entry.get("args")
    words = [str(entry.get("command", "")), *(map(str, arguments) if isinstance(arguments, list) else ())]
    return any(re.search(r"(^|[/\\.])toolfold(\.exe)?$", word) for word in words) and "mcp" in words


def variable_of(match: re.Match[str]) -> str:
    """The environment variable for a reference; `${input:api-key}`, which VS Code asks for, is `API_KEY` here."""
    return re.sub(r"\W", "_", match["name"]).upper() if match["kind"] == "input" else match["name"]
