"""A host that believes its guest: the positive control of attacks on the host's half of the protocol.

It speaks the same frames to a guest in the same jail, and does what one writes first: `json.loads`,
an index into the list of tools, paths opened by name, a polite signal at the end. Everything that it
lacks is what `toolfold.protocol`, `host.py`, `connection.py` and `files.py` have.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import select
import signal
import socket
import stat
import threading
import time
from typing import Any

from tests.escapes_support.seen import BLOB, TOOLS, Seen, open_descriptors
from toolfold.engines.base import Order
from toolfold.engines.process.guest import Guest
from toolfold.engines.process.zygote import Zygote
from toolfold.engines.process.zygote_launch import LaunchPlan, Tier
from toolfold.models import Media, Reply
from toolfold.protocol.codec import encode_facts, encode_program, encode_reply, encode_start, tool_facts
from toolfold_guest.shared.wire_format import BYTES_KEY, CALLS, ENDED, HEADER, MEDIA_KEY

_FIRST_WORD_SECONDS = 1.0
_QUIET_SECONDS = 0.15
_AT_MOST_SECONDS = 2.0
_STOP_READING_BYTES = 100 * 1024 * 1024


class NaiveHosts:
    """One zygote per tier, so that a control costs a fork."""

    def __init__(self) -> None:
        self._zygotes: dict[Tier, Zygote] = {}

    async def run(self, tier: Tier, order: Order) -> Seen:
        """The program in a guest of that tier, with nobody to check what it says."""
        if tier not in self._zygotes:
            self._zygotes[tier] = await Zygote.start(LaunchPlan(tier=tier))
        guest = self._zygotes[tier].spawn(order.limits)
        try:
            await guest.ready
            return await asyncio.to_thread(_NaiveHost(guest, order).run)
        finally:
            guest.close()
            await guest.wait()

    async def close(self) -> None:
        for zygote in self._zygotes.values():
            await zygote.close()


class _NaiveHost:
    def __init__(self, guest: Guest, order: Order) -> None:
        self._guest = guest
        self._order = order
        self._sock = guest.sock
        self._unsent = bytearray()
        self._received: list[int] = []
        self._before = open_descriptors()
        self.seen = Seen()

    def run(self) -> Seen:
        options = {"preset": (), "seed": None, "max_argument_bytes": 1 << 40, "max_value_bytes": 1 << 40}
        self._unsent += encode_program(self._order.program.text, encode_facts(map(tool_facts, self._order.tools)))
        self._unsent += encode_start(options)
        try:
            self._converse()
        except ConnectionResetError:
            pass  # it left without reading its replies
        except Exception as error:  # noqa: BLE001  # a real one would be gone now, with all its programs
            self.seen.error = f"{type(error).__name__}: {error}"[:200]
        self.seen.descriptors = open_descriptors() - self._before
        for fd in self._received:
            os.close(fd)
        self.seen.is_alive = self._survives_a_polite_end()
        self._collect()
        return self.seen

    def _converse(self) -> None:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        slowness = self._order.limits.wall_seconds  # of an attack that is tried again on a busy machine
        read, deadline = bytearray(), time.monotonic() + _AT_MOST_SECONDS * slowness
        self._send()
        patience = _FIRST_WORD_SECONDS * slowness
        while poll.poll(patience * 1000) and time.monotonic() < deadline:
            patience = _QUIET_SECONDS * slowness
            data, fds, _, _ = socket.recv_fds(self._sock, 1 << 20, 250)
            self._received += fds
            if not data:
                return
            read += data
            if len(read) > _STOP_READING_BYTES:
                raise MemoryError("a control must stay small")
            while len(read) >= HEADER.size and len(read) >= HEADER.size + HEADER.unpack_from(read)[0]:
                end = HEADER.size + HEADER.unpack_from(read)[0]
                self._believe(json.loads(bytes(read[HEADER.size : end])))
                del read[:end]
            self._send()
        if len(read) >= HEADER.size:
            self.seen.error = f"waits for {HEADER.unpack_from(read)[0]} bytes"

    def _believe(self, frame: list[Any]) -> None:
        seen = self.seen
        seen.printed += frame[1]
        if frame[0] == CALLS:
            seen.taped += 1 + sum(map(len, frame[5] or ()))
            for identity, index, arguments, *line in frame[3]:
                seen.served.append((identity, TOOLS[index]))
                seen.lines += line
                seen.largest_argument_bytes = max(seen.largest_argument_bytes, len(str(arguments)))
                seen.served_after_end = bool(seen.status)
                value = BLOB if TOOLS[index] == "blob" else None
                seen.answered_bytes += len(value or "")
                self._unsent += encode_reply(Reply(call_id=identity, value=value))
        elif frame[0] == ENDED:
            seen.status, seen.value, seen.cut_bytes = frame[3], _revive(frame[4]), tuple(frame[6])

    def _send(self) -> None:
        while self._unsent:
            try:
                del self._unsent[: self._sock.send(self._unsent)]
            except OSError:
                return

    def _survives_a_polite_end(self) -> bool:
        pidfd = self._guest._pidfd
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        except ProcessLookupError:
            return False
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return not poll.poll(100)

    def _collect(self) -> None:
        reader = threading.Thread(target=self._read_files, daemon=True)
        reader.start()
        reader.join(_FIRST_WORD_SECONDS)
        if reader.is_alive():
            self.seen.error = "stuck"
            self._release_pipes()
            reader.join()

    def _read_files(self) -> None:
        try:
            self._read_folder(f"/proc/self/fd/{self._guest.data_fd}")
        except (OSError, RecursionError) as error:
            self.seen.error = f"{type(error).__name__}: {error}"[:200]

    def _read_folder(self, folder: str) -> None:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                self._read_folder(path)
                continue
            try:
                with open(path, "rb") as file:
                    self.seen.files[name] = file.read()
            except FileNotFoundError as error:
                self.seen.notes += (f"left out {name!r}: {error}",)

    def _release_pipes(self) -> None:
        folder = f"/proc/self/fd/{self._guest.data_fd}"
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if stat.S_ISFIFO(os.lstat(path).st_mode):
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def _revive(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        ((key, item),) = value.items()
        if key == BYTES_KEY:
            return base64.b64decode(item)
        if key == MEDIA_KEY:
            kind, mime, data, uri, name = item
            return Media(kind=kind, mime=mime, data=base64.b64decode(data), uri=uri, name=name)
    return value
