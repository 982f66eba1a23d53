"""Cgroups of guests that start processes: in one, the kernel limits what all of them take together.

Rules:
1. A guest is moved into a cgroup of its own before it is locked down, and opens its cgroup namespace there: its program
   sees `/` wherever that lies, and has no file through which it could leave.
2. They lie below the cgroup of this process (v1) or what was delegated to it (v2). There, only a cgroup without
   processes may limit others, so this process and its children first go into `HOST`. No other process is moved.
3. Each is removed when its guest has ended. What a killed host leaves is empty, because its guests die with it: the
   next host removes it, by the process id and start time in its name, and never ends a process for that.
4. Where there is none, the host adds the memory up: see `resource_watch`. `toolfold doctor` says why.

To move a process may take milliseconds, because other processors must take notice: a thread does it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from toolfold.engines.process.resource_watch import descendants
from toolfold.models import Limits

HOST: Final = "toolfold-host"
_SYSTEMD: Final = Path("/run/systemd/system")
_OWNER: Final = re.compile(r"toolfold-(\d+)-(\d+)-\d+")
_START_TIME: Final = 19
"""In `stat`, counted after the name."""
_TRIES: Final = 5
"""A process may be forked while its siblings are moved."""
# A process may also be killed because a cgroup further up is full. Only v2 tells that apart.
_SIGN_V1: Final = "memory.oom_control", re.compile(r"^oom_kill [1-9]", re.MULTILINE)
_SIGN_V2: Final = "memory.events", re.compile(r"^oom [1-9]", re.MULTILINE)
_numbers = itertools.count(1)


class CgroupUnavailable(Exception):
    """No cgroup can be made here, for the reason in its text."""


class Cgroup:
    """Cgroup of one guest."""

    def __init__(self, folder: Path, maker: CgroupMaker) -> None:
        self.folder = folder
        self._maker = maker
        self._is_full = False

    def is_full(self) -> bool:
        """Whether the kernel has killed a process because the limit was reached; known of a removed one, too."""
        if not self._is_full:
            name, sign = _SIGN_V2 if self._maker.is_v2 else _SIGN_V1
            with contextlib.suppress(OSError):
                self._is_full = sign.search((self.folder / name).read_text("ascii")) is not None
        return self._is_full

    def end(self) -> None:
        """Its guest has ended: it is removed soon."""
        self.is_full()
        self._maker.remove_soon(self)


class CgroupMaker:
    """Makes and removes the cgroups of one fork server's guests, if it can; `refusal` is why not."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self.refusal = ""
        self._cgroups: set[Cgroup] = set()
        self._executor = ThreadPoolExecutor(1, "cgroup")
        try:
            own, mount, self.is_v2 = _own_folder(proc)
            self._parent = _delegated_folder(own, mount) if self.is_v2 else own
            _remove_leftovers(self._parent)
            self._remove(self._make(Limits()))
        except CgroupUnavailable as error:
            self.refusal = str(error)
        except OSError as error:
            self.refusal = f"the cgroup of this process cannot be divided: {error.strerror}"

    def move(self, pid: int, limits: Limits) -> asyncio.Future[Cgroup | None]:
        """Move a process into a new cgroup; `None` if there is none."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._move, pid, limits)

    def _move(self, pid: int, limits: Limits) -> Cgroup | None:
        with contextlib.suppress(OSError):
            return None if self.refusal else self._make(limits, pid)
        return None

    def remove_soon(self, cgroup: Cgroup) -> None:
        with contextlib.suppress(RuntimeError):  # closed meanwhile, which has removed it
            self._executor.submit(self._remove, cgroup)

    def close(self) -> None:
        """Remove what is left, when no guest lives any more."""
        self._executor.shutdown()
        for cgroup in tuple(self._cgroups):
            self._remove(cgroup)

    def _make(self, limits: Limits, pid: int | None = None) -> Cgroup:
        cgroup = Cgroup(self._parent / f"toolfold-{os.getpid()}-{_start_time(os.getpid())}-{next(_numbers)}", self)
        cgroup.folder.mkdir()
        self._cgroups.add(cgroup)
        # The first must be there. Of v1, memory and swap together may not be less than memory.
        most, processes = limits.memory_bytes, limits.threads + 1
        files = {"memory.limit_in_bytes": most, "memory.memsw.limit_in_bytes": most}
        if self.is_v2:
            files = {"memory.max": most, "memory.swap.max": 0, "memory.oom.group": 1, "pids.max": processes}
        if pid is not None:
            # The number is not another's yet: the process waits for us, and only the host ends it.
            files["cgroup.procs"] = pid
        try:
            for place, (name, value) in enumerate(files.items()):
                if not place or (cgroup.folder / name).exists():
                    _write(cgroup.folder / name, value)
        except OSError:
            self._remove(cgroup)
            raise
        return cgroup

    def _remove(self, cgroup: Cgroup) -> None:
        with contextlib.suppress(OSError):  # a process is still ending: `close` tries again
            cgroup.folder.rmdir()
            self._cgroups.discard(cgroup)


def _own_folder(proc: Path) -> tuple[Path, Path, bool]:
    """Cgroup of this process that can limit memory, where that hierarchy is mounted, and whether it is v2."""
    lines = (proc / "self/cgroup").read_text("utf-8").splitlines()
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    controllers = next((names for names in paths if "memory" in names.split(",")), "")
    kind, option = ("cgroup", "memory") if controllers else ("cgroup2", "rw")
    for line in (proc / "self/mountinfo").read_text("utf-8").splitlines():
        places, _, rest = line.partition(f" - {kind} ")
        if option in rest.split(" ")[-1].split(","):
            root, mount = places.split(" ")[3:5]
            folder = Path(mount, os.path.relpath(paths[controllers], root))
            # A container may see part of the hierarchy, or that of another.
            if os.getpid() in _processes(folder):
                return folder, Path(mount), not controllers
    raise CgroupUnavailable("the cgroup of this process is not mounted")


def _delegated_folder(own: Path, mount: Path) -> Path:
    """Of v2: where cgroups with a memory controller can be made, once this process has left it."""
    parent = own.parent if own != mount and (own.name == HOST or _is_delegated(own.parent)) else own
    if _SYSTEMD.is_dir() and not _is_delegated(parent):
        raise CgroupUnavailable("systemd has not delegated the cgroup of this process; set Delegate=yes in its unit")
    available = (parent / "cgroup.controllers").read_text("ascii").split()
    if "memory" not in available:
        raise CgroupUnavailable("the cgroup of this process has no memory controller")
    control = parent / "cgroup.subtree_control"
    for _ in range(_TRIES):
        if "memory" in control.read_text("ascii").split():
            break
        try:
            _write(control, "+memory +pids" if "pids" in available else "+memory")
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            _move_away(parent)
    return parent


def _move_away(parent: Path) -> None:
    present = _processes(parent)
    if present - {pid for pid, _ in descendants(os.getpid())}:
        raise CgroupUnavailable("other processes are in the cgroup of this process; start it in one of its own")
    (parent / HOST).mkdir(exist_ok=True)
    for pid in present:
        with contextlib.suppress(ProcessLookupError):
            _write(parent / HOST / "cgroup.procs", pid)


def _remove_leftovers(parent: Path) -> None:
    for name in os.listdir(parent):
        owner = _OWNER.fullmatch(name)
        if owner and _start_time(int(owner[1])) != int(owner[2]):
            with contextlib.suppress(OSError):
                (parent / name).rmdir()


def _start_time(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2].split()[_START_TIME])
    except OSError:
        return -1


def _processes(folder: Path) -> set[int]:
    try:
        return set(map(int, (folder / "cgroup.procs").read_text("ascii").split()))
    except OSError:
        return set()


def _is_delegated(folder: Path) -> bool:
    """Whether systemd says so; not everyone may read the first of the names."""
    for name in ("trusted.delegate", "user.delegate"):
        with contextlib.suppress(OSError):
            return os.getxattr(folder, name) == b"1"
    return False


def _write(path: Path, value: object) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(str(value).encode())
