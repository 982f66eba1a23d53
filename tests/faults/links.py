"""TCP connections that can be cut: proxies in a process of their own, one for each link, and how to disturb them.

    python -m tests.faults.links PORT...

Listens on a port of its own for each that is given, says which on the first line, and then takes one command a line.
A proxy needs no privileges, which network namespaces would, and can lose one direction, or half a message.

1. A hole holds what is sent, as TCP does while packets are lost: when the link is whole again it comes late, even if its
   sender has left since. Or the connection is dead by then, and what was held is gone.
2. Nothing is lost from the middle of a connection that goes on: TCP does not do that, either.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypedDict

Kind = Literal["whole", "black hole", "requests lost", "answers lost", "reset", "delay", "cut half-way"]
KINDS: Final[tuple[Kind, ...]] = (
    "black hole",
    "requests lost",
    "answers lost",
    "reset",
    "delay",
    "cut half-way",
)
_Way = Literal["there", "back"]
_HOLES: Final[dict[Kind, tuple[_Way, ...]]] = {
    "black hole": ("there", "back"),
    "requests lost": ("there",),
    "answers lost": ("back",),
}
_CHUNK_BYTES: Final = 65_536
_CUT_SHARE: Final = 0.2
"""Of what is sent over a link that cuts messages half-way."""
_LONGEST_DELAY_SECONDS: Final = 0.3


class Command(TypedDict):
    """What becomes of one link."""

    link: int
    kind: Kind
    is_dead: bool
    """Of a link that is whole again: whether what was held is lost, with its connections."""


class Links:
    """The process with the proxies, as the test holds it."""

    def __init__(self, targets: Sequence[int]) -> None:
        command = [sys.executable, "-m", __name__, *map(str, targets)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ports: list[int] = json.loads(self._answer())
        """One for each target."""

    def set(self, link: int, kind: Kind, *, is_dead: bool = False) -> None:
        """Returns when it is so."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(Command(link=link, kind=kind, is_dead=is_dead)) + "\n")
        self._process.stdin.flush()
        self._answer()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the process with the links has ended"
        return answer


class Link:
    """One proxy."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._kind: Kind = "whole"
        self._open: dict[_Way, asyncio.Event] = {"there": asyncio.Event(), "back": asyncio.Event()}
        for way in self._open.values():
            way.set()
        self._connections: set[tuple[asyncio.StreamWriter, ...]] = set()

    async def listen(self) -> int:
        """The port."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    def set(self, kind: Kind, *, is_dead: bool) -> None:
        self._kind = kind
        if kind == "reset" or is_dead:
            for connection in tuple(self._connections):
                _reset(*connection)
        for way, is_open in self._open.items():
            if way in _HOLES.get(kind, ()):
                is_open.clear()
            else:
                is_open.set()

    async def _accept(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self._kind == "reset":
            _reset(back)
            return
        writers: tuple[asyncio.StreamWriter, ...] = (back,)
        self._connections.add(writers)
        try:
            await self._open["there"].wait()
            far, there = await asyncio.open_connection("127.0.0.1", self._target)
            self._connections.discard(writers)
            writers = (back, there)
            self._connections.add(writers)
            await asyncio.gather(self._pump(near, there, "there", writers), self._pump(far, back, "back", writers))
        except OSError:
            pass  # nobody listens there now
        finally:
            self._connections.discard(writers)
            for writer in writers:
                writer.close()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        way: _Way,
        writers: tuple[asyncio.StreamWriter, ...],
    ) -> None:
        """One direction until its end; the other may go on, so that what is held is delivered without its sender."""
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self._kind == "delay":
                    await asyncio.sleep(random.uniform(0, _LONGEST_DELAY_SECONDS))
                await self._open[way].wait()
                if self._kind == "cut half-way" and random.random() < _CUT_SHARE:
                    writer.write(data[: len(data) // 2])
                    await writer.drain()
                    _reset(*writers)
                    return
                writer.write(data)
                await writer.drain()
        await self._open[way].wait()
        with suppress(OSError, RuntimeError):
            writer.write_eof()


def _reset(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        with suppress(OSError):
            # A close that does not linger is a reset.
            sock: Any = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


async def main(targets: Sequence[int]) -> None:
    links = [Link(target) for target in targets]
    print(json.dumps([await link.listen() for link in links]), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        command: Command = json.loads(line)
        links[command["link"]].set(command["kind"], is_dead=command["is_dead"])
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main([int(word) for word in sys.argv[1:]]))
