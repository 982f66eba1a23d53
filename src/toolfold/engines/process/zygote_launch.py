"""Launch plan, tiers and process limits of a fork server, and the process that builds its jail.

The program of that process is `toolfold_guest.jail.launch`. What it must know waits in its control socket before
it starts, so that neither its arguments nor its environment say anything of the host. Needs no event loop.
"""

from __future__ import annotations

import dataclasses
import json
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from toolfold.engines.process import jail_layout
from toolfold.errors import EngineUnavailable, UsageError
from toolfold.models import OWN_SETS, InstalledSet, LibrarySet, Limits
from toolfold_guest.shared.reserved_names import DATA_LIBRARIES, SCIENCE_LIBRARIES

# ----------------------------------------------------------------------------------------------------
# How many processes and threads all guests together may have, so that there is always room to start another.

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_LARGEST_RESERVE: Final = 1024
_OWN_CGROUP: Final = re.compile(r"^\d+:(?:|.*\bpids\b.*):(/.*)$", re.MULTILINE)


def most_processes(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int:
    """Process limit of this machine, container and user, less a quarter (at most 1024) kept from guests."""
    # The least of all counts: whichever is reached first refuses the fork.
    import resource  # noqa: PLC0415  # not on Windows, where this module is imported all the same

    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    kernel = [_number(proc / "sys/kernel" / name) for name in ("threads-max", "pid_max")]
    limits = [hard if hard != resource.RLIM_INFINITY else None, *kernel, *_left_in_cgroups(proc, cgroups)]
    room = min((number for number in limits if number is not None), default=_LARGEST_RESERVE * 4)
    return max(1, room - min(room // 4, _LARGEST_RESERVE))


def _left_in_cgroups(proc: Path, cgroups: Path) -> list[int]:
    try:
        own = _OWN_CGROUP.findall((proc / "self/cgroup").read_text(encoding="utf-8"))
    except OSError:
        return []
    folders = {folder for path in own for root in (cgroups, cgroups / "pids") for folder in _upwards(root, path)}
    limits = [(_number(folder / "pids.max"), _number(folder / "pids.current")) for folder in folders]
    return [max(0, most - (now or 0)) for most, now in limits if most is not None]


def _upwards(root: Path, path: str) -> list[Path]:
    """In a container the path may be the host's: then only the root of what is mounted is there."""
    below = root / path.lstrip("/")
    return [below, *(folder for folder in below.parents if folder == root or root in folder.parents)]


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):  # not there, or "max"
        return None


# ----------------------------------------------------------------------------------------------------
# How strongly a guest is held: three named sets of layers.

Layer: TypeAlias = Literal[
    "user", "mount", "pid", "net", "ipc", "uts", "cgroup", "rlimits", "caps", "landlock", "seccomp"
]
TierName: TypeAlias = Literal["namespace", "landlock", "none"]

LAYERS: Final[tuple[Layer, ...]] = get_args(Layer)
NAMESPACES: Final[frozenset[Layer]] = frozenset({"user", "mount", "pid", "net", "ipc", "uts", "cgroup"})


@dataclass(frozen=True, slots=True)
class Tier:
    """A name that goes into every outcome, and the layers that it requires, all of them."""

    name: TierName
    layers: frozenset[Layer]

    def without(self, *layers: Layer) -> Tier:
        dropped_layers = set(layers) | (NAMESPACES if "user" in layers else set())
        return replace(self, layers=self.layers - dropped_layers)


NAMESPACE: Final = Tier("namespace", frozenset(LAYERS))
LANDLOCK: Final = Tier("landlock", frozenset({"rlimits", "caps", "landlock", "seccomp"}))
NONE: Final = Tier("none", frozenset({"rlimits"}))


def tier_named(name: str) -> Tier:
    for tier in (NAMESPACE, LANDLOCK, NONE):
        if tier.name == name:
            return tier
    raise UsageError(f"no isolation {name!r}; choose 'namespace', 'landlock' or 'none'")


Profile: TypeAlias = Literal["python", "shell"]
"""`shell`: a tree with commands, in which programs start processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPlan:
    """Plan of a fork server: its tier, libraries and limits."""

    tier: Tier
    library_set: LibrarySet = "bare"
    limits: Limits = field(default_factory=Limits)
    """Of its guests, unless one is spawned with others."""
    loop_module: str = "toolfold_guest.main"
    """What guests run: the guest's loop, or a probe of the jail."""
    host_libraries: bool = False
    sets: tuple[InstalledSet, ...] = ()
    """What programs may need besides; if `library_set` is one of them, it is loaded as that says."""
    modules: tuple[str, ...] | None = None
    """For a server of one program: what it loads. Nothing else is prepared that only the next program would gain by."""
    profile: Profile = "python"
    runs_programs: bool = True
    """If not, its guests only show whether they can be locked, and nothing is loaded for programs."""

    @property
    def preloaded(self) -> InstalledSet | None:
        return next((candidate for candidate in self.sets if candidate.name == self.library_set), None)


@dataclass(frozen=True, slots=True)
class Launched:
    """A fork server on its way."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    folder: str
    """For data, where the tier has no tree of its own."""


def open_control(plan: LaunchPlan) -> tuple[socket.socket, socket.socket, str]:
    """Both ends of the control socket, with the orders in it, and the folder for data."""
    if sys.platform != "linux":
        raise EngineUnavailable(f"cannot isolate here: the process engine needs Linux, this is {sys.platform!r}")
    has_tree = "mount" in plan.tier.layers
    if plan.profile == "shell":
        # Imported here, as all that only bash programs need: every other start would wait for it.
        from toolfold.engines.process import shell_commands  # noqa: PLC0415

        if reason := shell_commands.refusal():
            raise EngineUnavailable(reason)
    # With a tree of its own a guest has its data in memory; without one, in this folder, which the zygote empties.
    folder = "" if has_tree else tempfile.mkdtemp(prefix="toolfold-")
    if has_tree:
        places = jail_layout.jailed(
            host_libraries=plan.host_libraries, sets=plan.sets, with_copies=plan.modules is None,
            with_commands=plan.profile == "shell",
        )  # fmt: skip
    else:
        places = jail_layout.in_place(folder, host_libraries=plan.host_libraries, sets=plan.sets)
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
            [*jail_layout.builder_arguments(), str(control.fileno())],
            env={"LC_ALL": "C.UTF-8"},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(control.fileno(),),
            start_new_session=True,  # a Ctrl-C in the terminal is for the host alone
        )


def _send_orders(control: socket.socket, places: jail_layout.Layout, plan: LaunchPlan, folder: str) -> None:
    """Two messages that wait in the socket: one for the builder of the jail, one for the zygote."""
    # JSON: the zygote is ours, but it starts without any package of the host that could decode more.
    both = {
        "layers": sorted(plan.tier.layers), "folder": folder, "sys_path": places.sys_path, "profile": plan.profile,
    }  # fmt: skip
    builder = {
        "arguments": places.arguments, "environment": places.environment, "binds": places.binds,
        "copies": places.copies, "hidden": places.hidden, "links": places.links,
        "readable": [source for source, _ in places.binds] or [*places.readable_folders, *places.readable_files],
    }  # fmt: skip
    own = plan.preloaded
    zygote = {
        "library_set": plan.library_set if own is None else "bare", "set_paths": places.set_paths,
        "own_set": () if own is None else (places.set_paths[own.name], *own.preload), "modules": plan.modules,
        "runs_programs": plan.runs_programs, "loop_module": plan.loop_module, "limits": dataclasses.asdict(plan.limits),
        "readable_folders": places.readable_folders, "readable_files": places.readable_files,
        "listed_folders": places.listed_folders, "most_processes": most_processes(),
    }  # fmt: skip
    for part in (builder, zygote):
        control.send(json.dumps({**both, **part}).encode())


# ----------------------------------------------------------------------------------------------------
# Single-use fork server, started early with only the libraries that one program names.

_IMPORT: Final = re.compile(r"^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SingleUseServer:
    """An option of the process engine, for a host that runs one program and leaves."""

    plan: LaunchPlan
    launched: Launched

    @classmethod
    def launch(cls, text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> SingleUseServer:
        """Start the server for this program, without an event loop, while the caller does other work.

        Raises:
            EngineUnavailable: This is not Linux.
        """
        plan = _plan_of(text, limits, isolation, sets)
        ours, theirs, folder = open_control(plan)
        try:
            process = start_builder(theirs)
        except BaseException:
            ours.close()
            raise
        ours.setblocking(False)
        return cls(plan, Launched(process, ours, folder))

    def fits(self, text: str, limits: Limits, *, isolation: str, sets: Sequence[InstalledSet] = ()) -> bool:
        return self.plan == _plan_of(text, limits, isolation, sets)

    def has(self, library_set: LibrarySet) -> bool:
        return library_set in OWN_SETS or any(candidate.replaces(library_set) for candidate in self.plan.sets)

    def give_up(self) -> None:
        """Stop an unused server; it has ended when this returns."""
        # The end of the control socket is the order to end.
        self.launched.control.close()
        self.launched.process.wait()


def _plan_of(text: str, limits: Limits, isolation: str, sets: Sequence[InstalledSet]) -> LaunchPlan:
    mounted = _set_of(text, sets)
    return LaunchPlan(
        tier=tier_named(isolation), limits=jail_layout.with_room(limits, mounted),
        sets=() if mounted is None else (mounted,), modules=modules_of(text),
    )  # fmt: skip


def modules_of(text: str) -> tuple[str, ...]:
    """Preloadable libraries that the program imports; it imports any others itself.

    The text is a stranger's, so nothing is loaded that is not one of ours.
    """
    roots = _roots(text)
    if "sklearn" in roots:
        roots.add("scipy")
    return tuple(name for name in (*DATA_LIBRARIES, *SCIENCE_LIBRARIES) if name.partition(".")[0] in roots)


def _set_of(text: str, sets: Sequence[InstalledSet]) -> InstalledSet | None:
    """The installed set that the program most likely needs; should the check find another, its jail is made then."""
    # What is preloaded needs a server of its own: it is imported before the last locks are set.
    candidates = [
        candidate for candidate in sets if not candidate.preload and not _roots(text).isdisjoint(candidate.modules)
    ]
    return max(candidates, key=lambda candidate: len(_roots(text) & candidate.modules), default=None)


def _roots(text: str) -> set[str]:
    return {name.partition(".")[0] for name in _IMPORT.findall(text)}


# ----------------------------------------------------------------------------------------------------
# Descriptors of processes: they cannot come to mean another process, but some calls take numbers only.

_PID: Final = re.compile(r"^Pid:\s*(\d+)$", re.MULTILINE)


def pid_of(pidfd: int) -> int:
    """Its number as this process sees it; 0 if it is gone."""
    try:
        with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
            match = _PID.search(file.read())
    except OSError:
        return 0
    return int(match[1]) if match else 0
