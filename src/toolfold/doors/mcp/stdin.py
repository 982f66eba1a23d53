"""Stdin as lines that a signal can interrupt: the SDK reads it in a thread, which only the client can end."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

import anyio

LONGEST_LINE_BYTES: Final = 64 * 1024 * 1024


@asynccontextmanager
async def stdin_lines(before: bytes = b"") -> AsyncIterator[anyio.AsyncFile[str] | None]:
    """The lines of stdin, after what was read `before`, for the SDK; `None` where it must read them its own way.

    While this is open, file descriptor 0 is the null device: what tools start reads nothing.
    """
    if not _can_be_watched(sys.stdin.fileno()):
        yield None
        return
    private, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    reader = asyncio.StreamReader(limit=LONGEST_LINE_BYTES)
    reader.feed_data(before)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(private), "rb", buffering=0)
    )
    try:
        # All that the SDK does with a file is to go through its lines.
        yield cast("anyio.AsyncFile[str]", _decoded(reader))
    finally:
        transport.close()
        # Shared with whoever started us, who may not expect what the loop made of it.
        os.set_blocking(private, True)
        os.dup2(private, 0)
        os.close(private)


async def _decoded(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    while line := await reader.readline():
        yield line.decode("utf-8", errors="replace")


def _can_be_watched(fd: int) -> bool:
    """Whether an event loop can wait for it: a file of a disk is always ready, and so is the null device."""
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd))
