"""Init command: `toolfold init` writes a commented `toolfold.yaml` from the MCP servers of other clients."""

import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import typer

# PyYAML ships no types, and its stubs are no dependency of ours.
import yaml  # type: ignore[import-untyped]

import toolfold
from toolfold.config.client_formats import client_places
from toolfold.config.discovery import FILE_NAME, display_path
from toolfold.config.import_clients import ClientServer, client_files, one_line, read_servers
from toolfold.config.loader import MAX_BYTES
from toolfold.config.model import plain_name
from toolfold.config.server_entries import ConfigWriter, ServerEntry
from toolfold.errors import UsageError
from toolfold.interfaces.cli.command_process import write_json

_HEAD: Final = """\
# yaml-language-server: $schema={schema}
# Config of toolfold, written by `toolfold init`. You can edit it.
# `${{VAR}}` and `${{VAR:-default}}` are read from the environment when toolfold starts.

"""
_NO_SERVERS: Final = """\
# MCP servers whose tools programs may call. None was found on this machine.
servers: []
#  - name: files
#    command: npx
#    args: ["-y", "@modelcontextprotocol/server-filesystem", "."]
"""
_TAIL: Final = """
# Which tools programs may call; names may contain * and ?. Use either allow or block.
# tools:
#   block: ["mcp__*__delete_*"]
#   ask: ["mcp__*__send_*"]        # a person is asked before each call
#   commands:                      # commands of this machine as tools; run without a shell
#     - name: git_log
#       argv: ["git", "log", "--oneline", ["-n", "{count}"]]
#       read_only: true
#   folders:                       # files below a folder as tools
#     - {name: docs, path: ./docs, write: false}

execution:
  timeout_seconds: 120
  max_output_bytes: 65536
"""


def init_command(folder: Path, *, force: bool = False, as_json: bool = False) -> int:
    """Write the file, and report its servers, what was left out or replaced, and which variables to set."""
    path = folder / FILE_NAME
    servers, left_out = _servers(folder)
    text = config_text(servers)
    if len(text.encode()) > MAX_BYTES:
        raise UsageError(
            f"{len(servers):,} servers do not fit into the {MAX_BYTES:,} bytes that a {FILE_NAME} may have; "
            "remove some of them from the files of your clients"
        )
    backup = _back_up(path) if path.exists() and (force or (not as_json and _may_replace(path))) else None
    try:
        # May hold an address or a path that is nobody else's business.
        with open(path, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{display_path(path)!r} already exists; edit it, or replace it with --force") from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"{display_path(path)!r} cannot be written: {reason}") from None
    needed = {name: place for server in servers for name, place in server.variables.items() if name not in os.environ}
    replaced_names = [name for server in servers for name in server.replaced]
    if as_json:
        write_json({
            "path": display_path(path), "backup": None if backup is None else display_path(backup),
            "servers": [{"name": server.found.name, "source": server.found.place} for server in servers],
            "left_out": left_out, "replaced": replaced_names, "variables": needed,
            "next": _claude_command(path, needed) if servers else None,
        })  # fmt: skip
        return 0
    count = f"{len(servers) or 'no'} server{'' if len(servers) == 1 else 's'}"
    typer.echo(f"wrote {display_path(path)} with {count}")
    if backup is not None:
        typer.echo(f"the previous file is kept as {display_path(backup)}")
    width = max((len(one_line(server.found.name)) for server in servers), default=0)
    for server in servers:
        typer.echo(f"  {one_line(server.found.name):<{width}}  from {server.found.place.partition(': ')[0]}")
    for line in left_out:
        typer.echo(f"left out: {line}", err=True)
    if replaced_names:
        noun = "secret" if len(replaced_names) == 1 else "secrets"
        typer.echo(
            f"replaced {len(replaced_names)} {noun} with variables, so that the file contains no secrets: "
            f"{', '.join(replaced_names)}"
        )
    if needed:
        typer.echo("set these variables where toolfold will run; a server whose variable is not set is left out:")
        width = max(map(len, needed))
        for name, place in needed.items():
            typer.echo(f"  {name:<{width}}  {place}")
    if servers:
        typer.echo(f"next: {_claude_command(path, needed)}")
    else:
        _tell_empty(path, folder)
    return 0


def _claude_command(path: Path, variables: Iterable[str]) -> str:
    """With the whole path of this command, which need not be on the client's PATH: an environment may be its home."""
    script = Path(sys.executable).with_name("toolfold")
    ours = [str(script)] if script.is_file() else [sys.executable, "-m", "toolfold"]
    needed = [word for name in variables for word in ("-e", f"{name}=...")]
    command = ["claude", "mcp", "add", "toolfold", *needed, "--", *ours, "mcp", "--config", str(path.resolve())]
    return shlex.join(command)


def _tell_empty(path: Path, folder: Path) -> None:
    typer.echo("no MCP servers found in the config files of other clients; searched:")
    for place in client_places(folder):
        typer.echo(f"  {display_path(place)}{'' if place.is_file() else ' (not found)'}")
    typer.echo(
        f"next: add a server below 'servers:' in {display_path(path)}, as its comment shows; 'toolfold tools list'"
    )
    typer.echo("then lists its tools. Your own tools need no server: toolfold run --tools FILE.py PROGRAM.py")


def _may_replace(path: Path) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return typer.confirm(f"{display_path(path)} exists; replace it and keep the old one as {path.name}.bak?")


def _back_up(path: Path) -> Path:
    backup = path.with_name(f"{path.name}.bak")
    try:
        os.replace(path, backup)
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise UsageError(f"{display_path(path)!r} cannot be renamed: {reason}") from None
    return backup


def config_text(servers: Sequence[ServerEntry]) -> str:
    head = _HEAD.format(schema=Path(toolfold.__file__).with_name("config.schema.json").as_uri())
    if not servers:
        return head + _NO_SERVERS + _TAIL
    parts = ["# MCP servers whose tools programs may call.\nservers:\n"]
    for server in servers:
        needs = f"; needs {', '.join(server.variables)}" if server.variables else ""
        lines = "".join(f"  {line}\n" for line in _as_yaml(server.entry).splitlines())
        # One line whatever a client's file, or a folder, is called: the next would not be a comment.
        comment = "".join(sign if sign.isprintable() else "?" for sign in f"from {server.found.place}{needs}")
        parts.append(f"  # {comment}\n{lines}")
    return head + "".join(parts) + _TAIL


# Any: each key has its own type.
def _as_yaml(entry: dict[str, Any]) -> str:
    """A list of this one entry; whatever cannot be seen in a text is escaped, line breaks among it."""

    def dump(*, allow_unicode: bool) -> str:
        dumped: str = yaml.dump(
            [entry], Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=1000, default_flow_style=None
        )
        return dumped

    text = dump(allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else dump(allow_unicode=False)


# PyYAML has no types.
class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    pass


def _represent(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _represent)


def _servers(folder: Path) -> tuple[list[ServerEntry], list[str]]:
    """Each server once, the nearest file first, and the reasons for those left out."""
    servers_by_name: dict[str, ClientServer] = {}
    left_out = []
    for path in client_files(folder):
        try:
            read = read_servers(path, folder=folder, is_named=False)
        except UsageError as error:
            left_out.append(str(error))
            continue
        left_out += [*read.mistakes, *read.disabled]
        for server in read.found:
            servers_by_name.setdefault(server.name, server)
    left_out += _drop_namesakes(servers_by_name)
    writer = ConfigWriter(servers_by_name.values())
    servers = []
    for server in servers_by_name.values():
        try:
            servers.append(writer.write(server))
        except UsageError as error:
            left_out.append(f"{server.place}: {error}")
    return servers, left_out


def _drop_namesakes(servers_by_name: dict[str, ClientServer]) -> list[str]:
    """Remove servers whose tools would have the names of another's, and say so."""
    messages, first = [], dict[str, str]()
    for name, server in list(servers_by_name.items()):
        other = first.setdefault(plain_name(name), name)
        if other != name:
            messages.append(f"{server.place}: tools of {other!r} would have the same names; rename one of the two")
            del servers_by_name[name]
    return messages
