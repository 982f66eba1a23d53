"""A server with one client, so that a fault comes exactly while its program is paused, runs, or is not there yet."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.escapes_support.seen import descendants
from tests.faults.clients import Client
from tests.faults.judge import Cause, Operation, Recorded
from tests.faults.programs import Kind
from tests.faults.servers import Server
from tests.faults.workers import Worker
from tests.ports import reserved_port

_SHORT_MILLISECONDS: Final = 60_000
_KINDS: Final[tuple[Kind, ...]] = ("effect", "clock", "ask", "gate", "random", "effect", "ask", "effect")
_JUMPS: Final = {"clock jump of +61 s": 61.0, "clock jump of -1 h": -3600.0, "clock jump of +1 h": 3600.0}


class LoneUser(Worker):
    """Programs of one client at a server of its own."""

    letter = "l"
    faults = (
        "kill -9 of a paused guest",
        "kill -9 of a waiting guest",
        "kill -9 of a running guest",
        *_JUMPS,
        "SIGTERM of a server at a pause",
        "SIGINT of a server at a pause",
    )

    def __init__(self, number: int, folder: Path, wanted: frozenset[str]) -> None:
        super().__init__(number, folder, wanted)
        port = reserved_port()
        self.server = Server(folder / "server", port, ledger=self.ledger, files=folder / "files")
        self.client = Client(number, lambda: [self.server.base], again=0.2, between=self._pause)
        self.client.operations = self.operations
        self._fault = ""

    async def records(self) -> list[Recorded]:
        await self.server.ready()
        return await super().records()

    async def close(self) -> None:
        await super().close()
        await self.client.talk.close()
        self.server.kill()

    async def suffer(self, fault: str, name: str) -> Operation:
        await self.server.ready()
        operation, made = self.begin(name, *_KINDS)
        # A moment that is not at a pause: before its start, or at the gate.
        self._fault = fault
        if "waiting" in fault:
            await self._kill_guests("other")
        if "running" not in fault:
            self.open_gate(operation)
        timeout = _SHORT_MILLISECONDS if fault in _JUMPS else 3_000_000
        running = asyncio.ensure_future(self.client.run(operation, made, timeout=timeout))
        if "running" in fault:
            standing = asyncio.ensure_future(self.at_gate(operation))
            await asyncio.wait([standing, running], return_when=asyncio.FIRST_COMPLETED)
            if running.done():  # it was ended on its way, which is for the judge
                standing.cancel()
            else:
                await self._kill_guests("guest")
            self.open_gate(operation)
        await running
        return operation

    async def _pause(self) -> None:
        """The program is paused, and its client is about to answer; or it has ended."""
        fault, self._fault = self._fault, ""
        began = time.monotonic()
        if "paused" in fault:
            await self._kill_guests("other", fault)
        elif fault in _JUMPS:
            self.server.clock.set(_JUMPS[fault])
            self.disturb(fault, "other", began)
        elif "at a pause" in fault:
            self.server.process.send_signal(signal.SIGTERM if "SIGTERM" in fault else signal.SIGINT)
            await asyncio.to_thread(self.server.process.wait)
            await self.server.ready()
            self.disturb(fault, "host", began)

    async def _kill_guests(self, cause: Cause, fault: str = "") -> None:
        """All of them: none of them runs a program, or the only one."""
        began = time.monotonic()
        children = {pid: descendants(pid) for pid in descendants(self.server.process.pid)}
        for pid in {guest for below in children.values() for guest in below if not children.get(guest)}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.disturb(fault or self._fault, cause, began)
