"""`toolfold init`: writes a commented `toolfold.yaml` from the MCP servers that other clients know."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

from toolfold.config.importing import Found, as_our_variables, client_files, read_servers
from toolfold.config.load import FILE_NAME, shown_path
from toolfold.errors import UsageError

_SECRET: Final = re.compile(
    r"token|secret|passw|api_?key|access_?key|private|credential|authorization|cookie", re.IGNORECASE
)
_REFERENCE: Final = re.compile(r"\$\{\w+(?::-[^}]*)?\}")

_HEAD: Final = """\
# toolfold: programs over many tools. Written by `toolfold init`; it is yours to edit.
# `${VAR}` and `${VAR:-default}` are read from the environment when toolfold starts.

"""
_NO_SERVERS: Final = """\
# MCP servers whose tools programs may call. None was found on this machine.
servers: []
#  - name: files
#    command: npx
#    args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
"""
_TAIL: Final = """
# Which tools programs may call; names may hold * and ?. Keep one of allow and block.
# tools:
#   block: ["mcp__*__delete_*"]
#   ask: ["mcp__*__send_*"]        # a person is asked before each call
#   commands:                      # commands of this machine as tools; no shell reads them
#     - name: git_log
#       argv: ["git", "log", "--oneline", ["-n", "{count}"]]
#       read_only: true
#   folders:                       # files below a folder as tools
#     - {name: docs, path: ./docs, write: false}

execution:
  timeout_seconds: 120
  max_output_bytes: 65536
"""


def init_command(folder: Path) -> int:
    """Write the file and say what is in it."""
    path = folder / FILE_NAME
    found, complaints = _found(folder)
    try:
        # May hold an address or a path that is nobody else's business.
        with open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(config_text(found))
    except FileExistsError:
        raise UsageError(f"{shown_path(path)!r} is there already; remove it, or edit it") from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"{shown_path(path)!r} cannot be written: {reason}") from None
    typer.echo(f"wrote {shown_path(path)} with {len(found)} server{'' if len(found) == 1 else 's'}")
    for server in found:
        typer.echo(f"  {server.name}  from {server.place.partition(': ')[0]}")
    for complaint in complaints:
        typer.echo(f"left out: {complaint}", err=True)
    typer.echo(f"next: claude mcp add toolfold -- toolfold mcp --config {path.resolve()}")
    return 0


def config_text(servers: list[Found]) -> str:
    """The file's text."""
    if not servers:
        return _HEAD + _NO_SERVERS + _TAIL
    parts = ["# MCP servers whose tools programs may call.\nservers:\n"]
    for found in servers:
        dumped = yaml.safe_dump(
            [_entry(found)], sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None
        )
        parts.append(f"  # from {found.place}\n" + "".join(f"  {line}\n" for line in dumped.splitlines()))
    return _HEAD + "".join(parts) + _TAIL


def _found(folder: Path) -> tuple[list[Found], list[str]]:
    """Each server once, the nearest file first; and what could not be read."""
    found: dict[str, Found] = {}
    complaints = []
    for path in client_files(folder):
        try:
            servers = read_servers(path, folder=folder)
        except UsageError as error:
            complaints.append(str(error))
            continue
        for server in servers:
            if server.transport is None:
                complaints.append(f"{server.place}: transport {server.entry.get('type')!r} is not known here")
            else:
                found.setdefault(server.name, server)
    return list(found.values()), complaints


# Any: values of a JSON file.
def _entry(found: Found) -> dict[str, Any]:
    keys = ("command", "args", "env", "cwd") if found.transport == "stdio" else ("url", "headers")
    said = {key: as_our_variables(found.entry[key], found.folder) for key in keys if found.entry.get(key)}
    for key in ("env", "headers"):
        if isinstance(said.get(key), dict):
            said[key] = dict(_without_secrets(said[key]))
    return {"name": found.name, "transport": found.transport, **said}


def _without_secrets(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A secret that was written out becomes a reference: it is not copied into one more file."""
    for name, value in values.items():
        text = value if isinstance(value, str) else str(value)
        if _SECRET.search(name) and not _REFERENCE.search(text):
            yield name, f"${{{re.sub(r'[^A-Za-z0-9_]', '_', name).upper()}}}"
        else:
            yield name, text


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
