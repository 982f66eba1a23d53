"""Starts a fork server: one process that builds the jail around itself and becomes the zygote.

The program of that process is `toolfold_guest.jail.launch`. What it must know waits in its control socket before
it starts, so that neither its arguments nor its environment say anything of the host.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

from toolfold.engines.process import layout
from toolfold.engines.process.processes import most_processes
from toolfold.engines.process.tiers import Tier
from toolfold.errors import EngineUnavailable
from toolfold.models import InstalledSet, LibrarySet, Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a fork server is to be."""

    tier: Tier
    library_set: LibrarySet
    limits: Limits
    """Of its guests, unless one is spawned with others."""
    loop_module: str
    """What guests run: the guest's loop, or a probe of the jail."""
    host_libraries: bool
    sets: tuple[InstalledSet, ...] = ()
    """What programs may need besides; if `library_set` is one of them, it is loaded as that says."""

    @property
    def preloaded(self) -> InstalledSet | None:
        """The installed set that this server is for."""
        return next((one for one in self.sets if one.name == self.library_set), None)


async def launch(plan: Plan) -> tuple[subprocess.Popen[bytes], socket.socket, str]:
    """The process, the control socket, and the folder for data where the tier has no tree of its own.

    Raises:
        EngineUnavailable: This is not Linux.
    """
    if sys.platform != "linux":
        raise EngineUnavailable(f"cannot isolate here: the process engine needs Linux, this is {sys.platform!r}")
    has_tree = "mount" in plan.tier.layers
    # With a tree of its own a guest has its data in memory; without one, in this folder, which the zygote empties.
    folder = "" if has_tree else tempfile.mkdtemp(prefix="toolfold-")
    if has_tree:
        places = layout.jailed(host_libraries=plan.host_libraries, sets=plan.sets)
    else:
        places = layout.in_place(folder, host_libraries=plan.host_libraries, sets=plan.sets)
    # Packets keep their borders and their descriptors together; no framing is needed.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    given_up = threading.Event()
    try:
        _send_orders(ours, places, plan, folder)
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
    return process, ours, folder


def _reap(launch: asyncio.Future[subprocess.Popen[bytes]]) -> None:
    """A process that nobody wants any more must not stay as a zombie."""
    if not launch.cancelled() and launch.exception() is None:
        threading.Thread(target=launch.result().wait, daemon=True).start()


def _launch(control: socket.socket, given_up: threading.Event) -> subprocess.Popen[bytes]:
    process = _builder(control)
    # The loop may be gone before it hears of the process, so nobody else would wait for it.
    if given_up.is_set():
        threading.Thread(target=process.wait, daemon=True).start()
    return process


def _builder(control: socket.socket) -> subprocess.Popen[bytes]:
    # The thread owns the socket: a cancelled start must not free a descriptor that is in use here.
    with control:
        return subprocess.Popen(
            [*layout.builder_arguments(), str(control.fileno())],
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control.fileno(),),
            start_new_session=True,  # a Ctrl-C in the terminal is for the host alone
        )


def _send_orders(control: socket.socket, places: layout.Layout, plan: Plan, folder: str) -> None:
    """Two messages that wait in the socket: one for the builder of the jail, one for the zygote."""
    # JSON: the zygote is ours, but it starts without any package of the host that could decode more.
    both = {"layers": sorted(plan.tier.layers), "folder": folder, "sys_path": places.sys_path}
    builder = {
        "arguments": places.arguments,
        "environment": places.environment,
        "binds": places.binds,
        "copies": places.copies,
        "hidden": places.hidden,
        "links": places.links,
        "readable": [source for source, _ in places.binds] or [*places.readable_folders, *places.readable_files],
    }
    own = plan.preloaded
    zygote = {
        "library_set": plan.library_set if own is None else "bare",
        "set_paths": places.set_paths,
        "own_set": () if own is None else (places.set_paths[own.name], *own.preload),
        "loop_module": plan.loop_module,
        "limits": dataclasses.asdict(plan.limits),
        "readable_folders": places.readable_folders,
        "readable_files": places.readable_files,
        "listed_folders": places.listed_folders,
        "most_processes": most_processes(),
    }
    for part in (builder, zygote):
        control.send(json.dumps({**both, **part}).encode())


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
