"""One command, run to its end: its output up to a cap, nothing of it left behind.

On the event loop's protocol and not on `asyncio.subprocess`: that one's `wait` returns, on some
Pythons, only when every pipe is closed, which a process that the command left behind can delay.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolfold.errors import ToolError

_GRACE_SECONDS: Final = 1.0
"""For pipes that stay open after the command ended: a process that left its group may hold them."""
_TAIL_BYTES: Final = 1000


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    code: int
    """Negative: the signal that ended it."""
    stdout: bytes
    stderr_tail: str


async def run_command(
    argv: Sequence[str], *, cwd: str | None, env: Mapping[str, str], stdin: bytes | None, max_output_bytes: int
) -> Finished:
    """Run it in a process group of its own, which is killed when the command ends or this is cancelled.

    Raises:
        ToolError: it printed more than the cap.
        OSError: it cannot be started.
    """
    loop = asyncio.get_running_loop()
    transport, watch = await loop.subprocess_exec(
        lambda: _Watch(loop, max_output_bytes),
        *argv,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        cwd=cwd,
        env=dict(env),
        start_new_session=True,
    )
    try:
        if stdin is not None:
            _write(transport, stdin)
        # `wait` and not a plain `await`: a cancel of this call must not cancel what `finally` waits for.
        await asyncio.wait([watch.exited])
        await asyncio.wait([watch.closed], timeout=_GRACE_SECONDS)
    finally:
        watch.kill_group()
        await asyncio.wait([watch.exited], timeout=_GRACE_SECONDS)
        transport.close()
    if watch.is_over_cap:
        raise ToolError(f"it printed more than {max_output_bytes} bytes; ask for less")
    return Finished(watch.exited.result(), bytes(watch.stdout), watch.stderr.decode(errors="replace").strip())


def _write(transport: asyncio.SubprocessTransport, data: bytes) -> None:
    pipe = transport.get_pipe_transport(0)
    assert isinstance(pipe, asyncio.WriteTransport)
    pipe.write(data)
    pipe.close()  # once all is written


class _Watch(asyncio.SubprocessProtocol):
    """Gathers output and sees the end."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cap_bytes: int) -> None:
        self.stdout = bytearray()
        self.stderr = b""
        self.is_over_cap = False
        self.exited: asyncio.Future[int] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._cap_bytes = cap_bytes
        self._open_pipes = {1, 2}
        self._is_group_alive = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport
        self._group = transport.get_pid()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.stderr = (self.stderr + data)[-_TAIL_BYTES:]
        elif len(self.stdout) + len(data) <= self._cap_bytes:
            self.stdout += data
        elif not self.is_over_cap:
            self.is_over_cap = True
            self.kill_group()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._open_pipes.discard(fd)
        if not self._open_pipes and not self.closed.done():
            self.closed.set_result(None)

    def process_exited(self) -> None:
        self.kill_group()  # what it left running would hold the pipes open, and nobody waits for it
        code = self._transport.get_returncode()
        if not self.exited.done():
            self.exited.set_result(-1 if code is None else code)

    def kill_group(self) -> None:
        # Once only: after the command was reaped its number may belong to somebody else.
        if self._is_group_alive:
            self._is_group_alive = self._transport.get_returncode() is None
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, signal.SIGKILL)
