"""What a fork server is to be, and the process that becomes one: it builds the jail around itself.

The program of that process is `toolfold_guest.jail.launch`. What it must know waits in its control socket before
it starts, so that neither its arguments nor its environment say anything of the host. Needs no event loop.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
import tempfile
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
    modules: tuple[str, ...] | None = None
    """For a server of one program: what it loads. Nothing else is prepared that only the next program would gain by."""
    runs_programs: bool = True
    """If not, its guests only show whether they can be locked, and nothing is loaded for programs."""

    @property
    def preloaded(self) -> InstalledSet | None:
        """The installed set that this server is for."""
        return next((one for one in self.sets if one.name == self.library_set), None)


@dataclass(frozen=True, slots=True)
class Launched:
    """A fork server on its way."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    folder: str
    """For data, where the tier has no tree of its own."""


def launch_ahead(plan: Plan) -> Launched:
    """For whoever has other work to do until the server is ready, and no event loop yet.

    Raises:
        EngineUnavailable: This is not Linux.
    """
    ours, theirs, folder = prepared(plan)
    try:
        process = start_builder(theirs)
    except BaseException:
        ours.close()
        raise
    ours.setblocking(False)
    return Launched(process, ours, folder)


def prepared(plan: Plan) -> tuple[socket.socket, socket.socket, str]:
    """Both ends of the control socket, with the orders in it, and the folder for data."""
    if sys.platform != "linux":
        raise EngineUnavailable(f"cannot isolate here: the process engine needs Linux, this is {sys.platform!r}")
    has_tree = "mount" in plan.tier.layers
    # With a tree of its own a guest has its data in memory; without one, in this folder, which the zygote empties.
    folder = "" if has_tree else tempfile.mkdtemp(prefix="toolfold-")
    if has_tree:
        places = layout.jailed(host_libraries=plan.host_libraries, sets=plan.sets, with_copies=plan.modules is None)
    else:
        places = layout.in_place(folder, host_libraries=plan.host_libraries, sets=plan.sets)
    # Packets keep their borders and their descriptors together; no framing is needed.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        _send_orders(ours, places, plan, folder)
    except BaseException:
        ours.close()
        theirs.close()
        raise
    return ours, theirs, folder


def start_builder(control: socket.socket) -> subprocess.Popen[bytes]:
    """The process, with this end of the control socket, which is closed here."""
    # Whoever starts it owns the socket: a cancelled start must not free a descriptor that is in use here.
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
        "modules": plan.modules,
        "runs_programs": plan.runs_programs,
        "loop_module": plan.loop_module,
        "limits": dataclasses.asdict(plan.limits),
        "readable_folders": places.readable_folders,
        "readable_files": places.readable_files,
        "listed_folders": places.listed_folders,
        "most_processes": most_processes(),
    }
    for part in (builder, zygote):
        control.send(json.dumps({**both, **part}).encode())
