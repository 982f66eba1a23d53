"""Starts a fork server without keeping the event loop waiting, and says what its tier cannot enforce."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import threading

from toolfold.engines.process.orders import Launched, Plan, prepared, start_builder


async def launch(plan: Plan) -> Launched:
    """Without keeping the loop waiting.

    Raises:
        EngineUnavailable: This is not Linux.
    """
    ours, theirs, folder = prepared(plan)
    given_up = threading.Event()
    try:
        launching = asyncio.ensure_future(asyncio.to_thread(_launch, theirs, given_up))
        process = await asyncio.shield(launching)
    except asyncio.CancelledError:
        given_up.set()
        # It ends by itself, now that the control socket is closed.
        launching.add_done_callback(_reap)
        ours.close()
        raise
    except BaseException:
        ours.close()
        raise
    ours.setblocking(False)
    return Launched(process, ours, folder)


def _reap(launch: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    """A process that nobody wants any more must not stay as a zombie."""
    if not launch.cancelled() and launch.exception() is None:
        threading.Thread(target=launch.result().wait, daemon=True).start()


def _launch(control: socket.socket, given_up: threading.Event) -> subprocess.Popen[bytes]:
    process = start_builder(control)
    # The loop may be gone before it hears of the process, so nobody else would wait for it.
    if given_up.is_set():
        threading.Thread(target=process.wait, daemon=True).start()
    return process


def notes_of(plan: Plan) -> tuple[str, ...]:
    """What this tier cannot enforce, whatever the machine."""
    tier = plan.tier
    notes = ["the program can read every package that is installed on the host"] if plan.host_libraries else []
    if "mount" in tier.layers:
        return tuple(notes)
    notes += ["the size of the data folder and the number of its files are not limited"]
    if "user" not in tier.layers:
        notes.append("the number of threads is limited by memory only")
    if "landlock" in tier.layers:
        notes.append("the program can see which files the host has, but not read them")
    if "seccomp" in tier.layers:
        notes.append("the program cannot change modes and times of files, as shutil.copy does")
    if not tier.layers & {"landlock", "seccomp"}:
        notes.append("the program is not isolated from the host")
    return tuple(notes)
