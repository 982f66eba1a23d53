"""`toolfold init`: writes a commented `toolfold.yaml` from the MCP servers that other clients know."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import typer

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

from toolfold.config.find import FILE_NAME, shown_path
from toolfold.config.importing import Found, client_files, read_servers
from toolfold.config.model import plain_name
from toolfold.config.writing import Writer, Written
from toolfold.errors import UsageError

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
    """Write the file, and say what is in it, what is not, and what must be set."""
    path = folder / FILE_NAME
    servers, left_out = _servers(folder)
    try:
        # May hold an address or a path that is nobody else's business.
        with open(path, "x", encoding="utf-8", opener=_private) as file:
            file.write(config_text(servers))
    except FileExistsError:
        raise UsageError(f"{shown_path(path)!r} is there already; remove it, or edit it") from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"{shown_path(path)!r} cannot be written: {reason}") from None
    typer.echo(f"wrote {shown_path(path)} with {len(servers)} server{'' if len(servers) == 1 else 's'}")
    width = max((len(server.found.name) for server in servers), default=0)
    for server in servers:
        typer.echo(f"  {server.found.name:<{width}}  from {server.found.place.partition(': ')[0]}")
    for line in left_out:
        typer.echo(f"left out: {line}", err=True)
    _tell_variables(servers)
    typer.echo(f"next: claude mcp add toolfold -- toolfold mcp --config {path.resolve()}")
    return 0


def _tell_variables(servers: Sequence[Written]) -> None:
    needed = {name: place for server in servers for name, place in server.variables.items() if name not in os.environ}
    if not needed:
        return
    typer.echo("set these variables where toolfold will run; a server whose variable is not set is left out:")
    width = max(map(len, needed))
    for name, place in needed.items():
        typer.echo(f"  {name:<{width}}  {place}")


def config_text(servers: Sequence[Written]) -> str:
    """The file's text."""
    if not servers:
        return _HEAD + _NO_SERVERS + _TAIL
    parts = ["# MCP servers whose tools programs may call.\nservers:\n"]
    for server in servers:
        dumped = yaml.safe_dump(
            [server.entry], sort_keys=False, allow_unicode=True, width=1000, default_flow_style=None
        )
        needs = f"; needs {', '.join(server.variables)}" if server.variables else ""
        lines = "".join(f"  {line}\n" for line in dumped.splitlines())
        parts.append(f"  # from {server.found.place}{needs}\n{lines}")
    return _HEAD + "".join(parts) + _TAIL


def _servers(folder: Path) -> tuple[list[Written], list[str]]:
    """Each server once, the nearest file first; and what could not be read or used."""
    found: dict[str, Found] = {}
    left_out = []
    for path in client_files(folder):
        try:
            read = read_servers(path, folder=folder)
        except UsageError as error:
            left_out.append(str(error))
            continue
        left_out += [*read.mistakes, *read.disabled]
        for server in read.found:
            found.setdefault(server.name, server)
    left_out += _without_namesakes(found)
    writer = Writer(found.values())
    servers = []
    for server in found.values():
        try:
            servers.append(writer.write(server))
        except UsageError as error:
            left_out.append(f"{server.place}: {error}")
    return servers, left_out


def _without_namesakes(found: dict[str, Found]) -> list[str]:
    """Take out servers whose tools another one has the names for already; what to say of them."""
    said, first = [], dict[str, str]()
    for name, server in list(found.items()):
        other = first.setdefault(plain_name(name), name)
        if other != name:
            said.append(f"{server.place}: tools of {other!r} would have the same names; rename one of the two")
            del found[name]
    return said


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
