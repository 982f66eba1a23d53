"""Commands as tools: an argv template with `{name}` where an argument goes. No shell reads it.

* `{{` and `}}` are braces. A value always stays within its own argument, whatever is in it.
* `"{names}"` alone takes a list as several arguments; elsewhere lists and objects are JSON text.
* Without a value (and without a default in the schema) an item of the template is left out; a
  list in the template is left out as one: `["git", "log", ["-n", "{count}"]]`.
* A value cannot become an option: one that starts with `-` is refused where it would begin an
  item, unless its name is in `allow_options` or a plain `--` stands before it. What else a value
  may mean to the command (`@file`, `+x`, `/etc`) only the schema can bound: give it a `pattern`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final, Literal, TypeAlias, Unpack

import msgspec

from toolfold.errors import ToolError, UsageError
from toolfold.models import MIB, Json, ToolSpec, Value
from toolfold.tools.arguments import bad_argument, show_value, wrong
from toolfold.tools.tool import SpecOptions, Tool, python_name

# ----------------------------------------------------------------------------------------------------
# Command run to its end: its output up to a cap, no process left behind.
#
# On the event loop's protocol and not on `asyncio.subprocess`: that one's `wait` returns, on some
# Pythons, only when every pipe is closed, which a process that the command left behind can delay.

_GRACE_SECONDS: Final = 1.0
"""Wait for pipes that stay open after the command ended: a process that left its group may hold them."""
_TAIL_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class CompletedCommand:
    """Result of a command."""

    code: int
    """Negative for the signal that ended it."""
    stdout: bytes
    stderr_tail: str


async def run_command(
    argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str], stdin: bytes | None, max_output_bytes: int
) -> CompletedCommand:
    """Run a command in a process group that is killed with it, or when cancelled; `ToolError` if it prints too much."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: _CommandProtocol(loop, max_output_bytes), *argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE, cwd=cwd, env=dict(env),
        start_new_session=True,
    )  # fmt: skip
    try:
        if stdin is not None:
            _write(transport, stdin)
        # `wait` and not a plain `await`: a cancel of this call must not cancel what `finally` waits for.
        await asyncio.wait([protocol.exited])
        await asyncio.wait([protocol.closed], timeout=_GRACE_SECONDS)
    finally:
        protocol.kill()
        await asyncio.wait([protocol.exited], timeout=_GRACE_SECONDS)
        transport.close()
    if protocol.is_over_cap:
        raise ToolError(f"it printed more than {max_output_bytes} bytes; ask for less")
    return CompletedCommand(
        protocol.exited.result(), bytes(protocol.stdout), protocol.stderr.decode(errors="replace").strip()
    )


def _write(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(data)
    pipe.close()  # once all is written


class ProcessGroup(asyncio.SubprocessProtocol):
    """Child process that leads a process group of its own."""

    _is_group_alive = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self._group = transport.get_pid()

    @property
    def exit_code(self) -> int | None:
        """Negative for the signal that ended it."""
        return self._transport.get_returncode()

    def kill(self, *, softly: bool = False) -> None:
        """Signal the whole group; only once after the child was reaped, when its number may become another's."""
        if self._is_group_alive:
            self._is_group_alive = self.exit_code is None
            if sys.platform == "win32":
                self._kill_tree()
                return
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGTERM if softly else signal.SIGKILL)

    def _kill_tree(self) -> None:
        """On Windows, which has no groups and no way to end a process softly."""
        if self.exit_code is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                command = ["taskkill", "/F", "/T", "/PID", str(self._group)]
                subprocess.run(command, capture_output=True, check=False, timeout=_GRACE_SECONDS)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                self._transport.kill()


class _CommandProtocol(ProcessGroup):
    """Command whose output is gathered."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cap_bytes: int) -> None:
        self.stdout = bytearray()
        self.stderr = b""
        self.is_over_cap = False
        self.exited: asyncio.Future[int] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._cap_bytes = cap_bytes
        self._open_pipes = {1, 2}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr = (self.stderr + data)[-_TAIL_BYTES:]
        elif len(self.stdout) + len(data) <= self._cap_bytes:
            self.stdout += data
        elif not self.is_over_cap:
            self.is_over_cap = True
            self.kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if not self._open_pipes and not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        self.kill()  # what it left running would hold the pipes open, and nobody waits for it
        if not self.exited.done():
            self.exited.set_result(-1 if self.exit_code is None else self.exit_code)


Template: TypeAlias = Sequence[str | Sequence[str]]

WINDOWS_ENVIRONMENT: Final = (
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE", "SYSTEMDRIVE",
    "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""Variables without which hardly any program starts there."""
ENVIRONMENT: Final = (
    "HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", *(WINDOWS_ENVIRONMENT if sys.platform == "win32" else ()),
)  # fmt: skip
"""Default variables of the host that a command gets."""


def shell_tool(
    name: str, argv: Template, *, description: str = "", input_schema: Mapping[str, Json] | None = None,
    output: Literal["text", "json"] = "text", output_schema: Mapping[str, Json] | None = None, stdin: str | None = None,
    cwd: str | None = None, environment: Collection[str] = ENVIRONMENT, variables: Mapping[str, str] | None = None,
    allow_options: Collection[str] = (), ok_codes: Collection[int] = (0,), timeout_seconds: float = 60.0,
    max_output_bytes: int = 10 * MIB, **options: Unpack[SpecOptions],
) -> Tool:  # fmt: skip
    """A tool that runs a command and returns what it prints; see the module for the template.

    Args:
        name: Name of the tool.
        argv: The template; its first item is the program and takes no argument.
        description: Text for the model.
        input_schema: Schema of the arguments; by default each `{name}` is a required string.
        output: `text` without the last line end, or `json`, parsed.
        output_schema: Schema of the value.
        stdin: A template too; without it the command reads nothing.
        cwd: Working directory.
        environment: Names of host variables that it gets.
        variables: Further ones, with values.
        allow_options: Arguments whose value may start with `-`.
        ok_codes: Exit codes that are no failure.
        timeout_seconds: Time after which the command and all it started is killed.
        max_output_bytes: Output beyond which it is killed.
        options: As in `ToolSpec`.

    Raises:
        UsageError: the template or the schema cannot work; the text says why.
    """
    template = _Template.of(name, argv, stdin)
    schema = _schema(input_schema, template)
    _check_names(name, template, schema, allow_options)
    defaults = {
        key: property_schema["default"]
        for key, property_schema in schema.get("properties", {}).items()
        if "default" in property_schema
    }

    async def call(arguments: Mapping[str, Any]) -> Any:
        values = {key: value for key, value in {**defaults, **arguments}.items() if value is not None}
        command = list(template.fill(values, allow_options))
        inherited = {key: os.environ[key] for key in environment if key in os.environ}
        result = await run_command(
            command, cwd=cwd, env={**inherited, **(variables or {})}, stdin=template.fill_stdin(values),
            max_output_bytes=max_output_bytes,
        )  # fmt: skip
        if result.code not in ok_codes:
            raise ToolError(_failure(result))
        return _value(result.stdout, output)

    spec = ToolSpec(
        name=name,
        python_name=python_name(name),
        description=description,
        input_schema=schema,
        # Without one the router would parse text that looks like JSON.
        output_schema=output_schema or ({"type": "string"} if output == "text" else None),
        timeout_seconds=timeout_seconds,
        source="shell",
        **options,
    )
    return Tool(spec=spec, call=call)


# --- the template ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Item:
    """Argument of the command: literal parts, and names of values."""

    parts: tuple[tuple[str, str | None], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for _, name in self.parts if name is not None)

    @property
    def lone_name(self) -> str | None:
        return self.parts[0][1] if len(self.parts) == 1 and not self.parts[0][0] else None

    @property
    def is_dashed(self) -> bool:
        """Whether the template itself makes it an option."""
        return self.parts[0][0].startswith("-") if self.parts else False

    def fill(self, values: Mapping[str, Value]) -> str:
        return "".join(literal + ("" if name is None else _text(values[name])) for literal, name in self.parts)


@dataclass(frozen=True, slots=True)
class _Template:
    tool: str
    groups: tuple[tuple[_Item, ...], ...]
    stdin: _Item | None

    @classmethod
    def of(cls, tool: str, argv: Template, stdin: str | None) -> _Template:
        if isinstance(argv, str) or not argv:
            raise UsageError(f"{tool!r} needs its command as a list, such as ['git', 'log'], got {argv!r}")
        groups = tuple(
            tuple(_parse_item(tool, item) for item in ([group] if isinstance(group, str) else group)) for group in argv
        )
        if not isinstance(argv[0], str) or groups[0][0].names:
            raise UsageError(f"{tool!r} must name its program in full: the first item takes no argument")
        return cls(tool, groups, None if stdin is None else _parse_item(tool, stdin))

    @property
    def names(self) -> tuple[str, ...]:
        items = [item for group in self.groups for item in group] + ([self.stdin] if self.stdin else [])
        return tuple(dict.fromkeys(name for item in items for name in item.names))

    def fill(self, values: Mapping[str, Value], allow_options: Collection[str]) -> Iterator[str]:
        is_past_options = False
        for group in self.groups:
            if any(name not in values for item in group for name in item.names):
                continue
            for item in group:
                for text in self._texts(item, values):
                    is_free = is_past_options or item.is_dashed or set(item.names) <= set(allow_options)
                    if text.startswith("-") and not is_free:
                        raise bad_argument(self.tool, wrong([item.names[0]], "must not start with '-'", text))
                    if "\0" in text:
                        raise bad_argument(self.tool, f"{item.names[0]} must not hold a NUL sign")
                    yield text
                is_past_options = is_past_options or (not item.names and item.fill({}) == "--")

    def fill_stdin(self, values: Mapping[str, Value]) -> bytes | None:
        if self.stdin is None:
            return None
        all_values = {**dict.fromkeys(self.stdin.names, ""), **values}
        return self.stdin.fill(all_values).encode("utf-8", "surrogateescape")

    @staticmethod
    def _texts(item: _Item, values: Mapping[str, Value]) -> Iterator[str]:
        value = None if item.lone_name is None else values[item.lone_name]
        if isinstance(value, list):
            yield from map(_text, value)
        else:
            yield item.fill(values)


def _parse_item(tool: str, text: str) -> _Item:
    try:
        parts = tuple(Formatter().parse(text))
    except (ValueError, TypeError) as error:
        raise UsageError(f"{tool!r} has a bad template {text!r}: {error}") from error
    for _, name, layout, conversion in parts:
        if name is not None and (not name.isidentifier() or layout or conversion):
            raise UsageError(f"{tool!r} has a bad template {text!r}: write {{name}}, or {{{{ for a brace")
    return _Item(tuple((literal, name) for literal, name, _, _ in parts))


def _text(value: Value) -> str:
    match value:
        case str():
            return value
        case bytes():
            return os.fsdecode(value)
    return msgspec.json.encode(value).decode()


# --- the schema ------------------------------------------------------------------------------


def _schema(input_schema: Mapping[str, Json] | None, template: _Template) -> Mapping[str, Json]:
    if input_schema is not None:
        return input_schema
    return {
        "type": "object", "properties": {name: {"type": "string"} for name in template.names},
        "required": list(template.names), "additionalProperties": False,
    }  # fmt: skip


def _check_names(tool: str, template: _Template, schema: Mapping[str, Json], allow_options: Collection[str]) -> None:
    declared_names, used_names = set(schema.get("properties", {})), set(template.names)
    for name in sorted({*used_names, *allow_options} - declared_names):
        raise UsageError(f"{tool!r} uses an argument {name!r} that its schema does not have")
    for name in sorted(declared_names - used_names):
        raise UsageError(f"{tool!r} has an argument {name!r} that its command does not use")


# --- the result ------------------------------------------------------------------------------


def _failure(result: CompletedCommand) -> str:
    status = f"exit code {result.code}" if result.code >= 0 else f"killed by signal {-result.code}"
    return f"{status}: {result.stderr_tail}" if result.stderr_tail else status


def _value(stdout: bytes, output: str) -> Value:
    if output == "text":
        return stdout.decode(errors="replace").removesuffix("\n")
    try:
        return msgspec.json.decode(stdout)
    except ValueError as error:
        raise ToolError(f"it printed no JSON: {show_value(stdout.decode(errors='replace'))}") from error
