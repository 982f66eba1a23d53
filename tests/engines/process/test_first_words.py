"""What a guest says before it has a program: its data folder, then that it is locked; anything else ends it."""

import array
import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolfold.engines.process.guest import Guest
from toolfold.errors import EngineCrashed, EngineUnavailable

FRAME = b'0   [1,"","",[[1,0,{"name":"secret of a program"},2]],0,[[],[]]]'


@pytest.fixture
async def ends() -> Iterator[tuple[Guest, socket.socket]]:
    host_end, guest_end = socket.socketpair()
    host_end.setblocking(False)
    guest = Guest(host_end, lambda: None)
    yield guest, guest_end
    guest.close()
    guest_end.close()


async def failure(guest: Guest) -> tuple[type[BaseException], str]:
    async with asyncio.timeout(60):
        try:
            await asyncio.shield(guest.ready)
        except (EngineCrashed, EngineUnavailable) as error:
            return type(error), str(error)
    raise AssertionError("the guest is ready")


async def test_a_folder_without_its_descriptor_ends_the_guest_at_once(ends: tuple[Guest, socket.socket]) -> None:
    guest, guest_end = ends
    guest_end.send(b"DR" + FRAME)

    kind, text = await failure(guest)

    assert kind is EngineUnavailable
    assert text == "this process cannot open another file, so the guest has no data folder; nothing ran"


async def test_words_of_a_program_are_never_told_as_the_reason(ends: tuple[Guest, socket.socket]) -> None:
    guest, guest_end = ends
    guest_end.send(FRAME)

    assert await failure(guest) == (
        EngineCrashed,
        "the guest broke the protocol before it was locked down; nothing ran",
    )


async def test_the_reason_why_a_guest_could_not_be_locked_is_told(
    ends: tuple[Guest, socket.socket], tmp_path: Path
) -> None:
    guest, guest_end = ends
    folder = os.open(tmp_path, os.O_RDONLY)
    guest_end.sendmsg([b"D"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [folder]))])
    guest_end.send(b"Fseccomp: not permitted")
    guest_end.shutdown(socket.SHUT_WR)
    os.close(folder)

    assert await failure(guest) == (EngineUnavailable, "cannot isolate here: seccomp: not permitted")
