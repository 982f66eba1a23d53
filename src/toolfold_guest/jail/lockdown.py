"""From a fresh fork to a locked guest: the order of steps, and nothing that can be done before the fork."""

import os
import resource
import signal
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from toolfold_guest.jail import identity, kernel, landlock, seccomp, tree
from toolfold_guest.jail.steps import Planned, Steps
from toolfold_guest.jail.tree import DATA, TEMP

USER_INSIDE: Final = 1000
SOCKET_FD: Final = 3
"""Where a fork finds its socket to the host."""
DATA_FD: Final = identity.PROC_FD
"""The guest's open data folder, until it has been handed to the host; takes the place of /proc."""
DATA_MESSAGE: Final = b"D"
"""What it is handed over with."""

_STACK_BYTES: Final = 8 * 1024 * 1024
_SIGNALS_PENDING: Final = 128
# The builder of the jail has set RLIMIT_CORE for all.
_LIMITS: Final = (
    resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_STACK,
    resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_SIGPENDING, resource.RLIMIT_NPROC,
)  # fmt: skip
_NPROC, _INFINITY = resource.RLIMIT_NPROC, resource.RLIM_INFINITY
_ZYGOTE_OOM_SCORE, _GUEST_OOM_SCORE = 500, 1000
# Stands for the guest's process id in a filter made before the id is known.
_ANY_PROCESS: Final = 0x7E571D01


Plan = tuple[Planned, Planned]
"""What a fresh fork does before anything else, and what it does before a program is let in."""


class Lockdown:
    """What the zygote can prepare for all its guests: a guest takes the steps of a `plan`."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._layers = frozenset(order["layers"])
        self.has_tree = "mount" in self._layers
        self._has_own_ids = "pid" in self._layers
        self._namespaces = 0
        # In one `unshare`: the user namespace gives the right to open the others.
        for layer, flag in (("user", kernel.NEWUSER), ("mount", kernel.NEWNS), ("ipc", kernel.NEWIPC)):
            self._namespaces |= flag if layer in self._layers else 0
        self.first_free_fd = DATA_FD + 1
        if "landlock" in self._layers:
            self._prepare_landlock(order["readable_folders"], order["readable_files"], order["listed_folders"])
        if "seccomp" in self._layers:
            assert kernel.MACHINE is not None
            # Signals may go to the guest alone: number 1 in a namespace of its own, else known only after the fork.
            process = 1 if self._has_own_ids else _ANY_PROCESS
            self._filter = seccomp.compile_guest(kernel.MACHINE, process, attributes=self.has_tree)
            self._loadable = seccomp.Filter(self._filter)
        self._user, self._group = os.getuid(), os.getgid()
        self._hard_limits = [(limit, resource.getrlimit(limit)[1]) for limit in _LIMITS]
        hard = resource.getrlimit(_NPROC)[1]
        most_processes: int = order["most_processes"]
        self._most_processes = most_processes if hard == _INFINITY else min(most_processes, hard)
        self._process_limit = (self._most_processes, hard)

    def confine_zygote(self) -> None:
        """The part of the lock-down that guests inherit: what they would all pay for, done once."""
        # Rather the zygote than the host, and rather a guest than its zygote.
        identity.offer_to_oom_killer(_ZYGOTE_OOM_SCORE)
        # Landlock and seccomp of an unprivileged process need it; and no set-uid file can give anything back.
        kernel.no_new_privileges()
        # With a user namespace the rights are those inside of it, and the guest gives them up itself.
        if "caps" in self._layers and "user" not in self._layers:
            kernel.drop_bounding_set()
            kernel.drop_capabilities()
        if "seccomp" in self._layers:
            assert kernel.MACHINE is not None
            # A filter can only be narrowed: what no guest ever needs is closed for the zygote too.
            seccomp.load_filter(seccomp.compile_base(kernel.MACHINE))

    def plan(self, limits: Mapping[str, Any], vm_bytes: int, folder: str) -> Plan:
        """For a guest that is to be forked with its socket at `SOCKET_FD`; in a tree, good for every such guest."""
        # Written down in the zygote, whose descriptors the fork begins with.
        taken = [fd for fd in range(self.first_free_fd) if _is_open(fd)]
        separate = Steps(taken)
        # The sockets of siblings end here.
        separate.close_from(self.first_free_fd)
        separate.unblock_signals()
        self._separate(separate, limits, folder)
        # Before the limits: the kernel counts descriptors in flight per user, over all guests, and
        # compares with the limit of who sends. A guest that hoards them must not stop the others.
        separate.hand_over(DATA_FD, by=SOCKET_FD, text=DATA_MESSAGE)
        separate.close(DATA_FD)
        seal = Steps(separate.taken)
        self._seal(seal, limits, vm_bytes, folder)
        return separate.planned(), seal.planned()

    def adapt(self, folder: str) -> None:
        """What has no steps: where a guest has no tree, the way to its temporary folder."""
        if not self.has_tree:
            _use_temp(self._folders_of(folder)[0])

    def seal_with_own_id(self) -> None:
        """The rest of the lock-down where a guest's process id is known to it alone."""
        if "seccomp" in self._layers and not self._has_own_ids:
            seccomp.Filter(_for_process(self._filter, os.getpid())).load()

    def _separate(self, steps: Steps, limits: Mapping[str, Any], folder: str) -> None:
        """Own namespaces and files; afterwards 1 and 2 are a file and `DATA_FD` is the data folder."""
        steps.write(identity.OOM_SCORE, b"%d" % _GUEST_OOM_SCORE, folder=identity.PROC_FD, must=False)
        # An open file of the zygote's would be shared: its flags and locks would tell the next guest what this one did.
        steps.close(0)
        steps.open("/dev/null", os.O_RDONLY)
        if self._namespaces & kernel.NEWUSER:
            # The kernel keeps it as what all users of such namespaces may have together; the zygote may have more.
            steps.limit(_NPROC, *self._process_limit)
        if self._namespaces:
            steps.add("unshare", self._namespaces)
        if self._namespaces & kernel.NEWUSER:
            for path, text in identity.id_maps(self._user, self._group, inside=USER_INSIDE):
                steps.write(path, text, folder=identity.PROC_FD)
        # After the mount namespace: these mounts are the guest's own and end with it.
        temp, data = self._folders_of(folder)
        if self.has_tree:
            tree.plan_temp(steps, temp, size_bytes=limits["temp_bytes"], files=limits["data_files"])
            tree.plan_temp(steps, data, size_bytes=limits["data_bytes"], files=limits["data_files"])
        else:
            steps.make_folder(temp)
            steps.make_folder(data)
        steps.change_folder(data)
        # Files without a name, in the guest's own limits: C code can fill them, and nobody else's disk.
        for stream in (1, 2):
            output = steps.open(f"{temp}/.output", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            steps.remove_file(f"{temp}/.output")
            steps.duplicate(output, stream)
            steps.close(output)
        # The host reads the results through this descriptor, for it cannot see the mount itself.
        opened = steps.open(data, os.O_RDONLY | os.O_DIRECTORY)
        steps.duplicate(opened, DATA_FD)
        steps.close(opened)

    def _seal(self, steps: Steps, limits: Mapping[str, Any], vm_bytes: int, folder: str) -> None:
        """Give up every right that a program must not have. There is no way back."""
        if "landlock" in self._layers:
            # Before the limits: the zygote has more files open for it than a guest may open.
            self._ruleset.plan(steps, self._folders_of(folder))
        # The data folder, which the host has by now, and Landlock's folders: only the guest's own socket is left.
        steps.close_from(DATA_FD)
        if "rlimits" in self._layers:
            self._limit(steps, limits, vm_bytes)
        if "caps" in self._layers:
            # After the mounts, which needed them; before the filter, which forbids the calls that do this.
            steps.try_to("prctl", kernel.PR_SET_SECUREBITS, kernel.SECUREBITS)
            steps.add("capset", kernel.CAPABILITY_HEADER, kernel.NO_CAPABILITIES)
            # No process of the same user can look into this one. Its own /proc is root's from then on.
            steps.add("prctl", kernel.PR_SET_DUMPABLE, 0)
        # A change of credentials clears it, so it comes after the last of them.
        steps.add("prctl", kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if "seccomp" in self._layers and self._has_own_ids:
            # Last of all: everything above would be refused under it.
            self._loadable.plan(steps)

    def _prepare_landlock(self, readable: Sequence[str], files: Sequence[str], listed: Sequence[str]) -> None:
        # Opened before anything else, so that a guest keeps these and closes all above them.
        devices = ["/dev"] if self.has_tree else [f"/dev/{name}" for name in tree.DEVICES]
        folder_fds = [_open(path) for path in readable]
        file_fds = [_open(path) for path in files]
        listed_fds = [_open(path) for path in listed]
        device_fds = [_open(path) for path in devices if os.path.exists(path)]
        self.first_free_fd = max(*folder_fds, *file_fds, *listed_fds, *device_fds) + 1
        self._ruleset = landlock.Ruleset(landlock.version())
        self._ruleset.allow_read(folder_fds)
        self._ruleset.allow_read(file_fds, files=True)
        self._ruleset.allow_list(listed_fds)
        self._ruleset.allow_devices(device_fds)

    def _folders_of(self, folder: str) -> tuple[str, str]:
        return (TEMP, DATA) if self.has_tree else (f"{folder}/temp", f"{folder}/data")

    def _limit(self, steps: Steps, limits: Mapping[str, Any], vm_bytes: int) -> None:
        # In the order of `_LIMITS`. The first process of a pid namespace ignores SIGXCPU; the hard limit is a SIGKILL.
        # Processes are counted per user: only in a user namespace of its own is that the guest's alone. Elsewhere the
        # limit is that of all guests together, below the zygote's, so that it can always fork.
        values = (
            vm_bytes + limits["memory_bytes"], limits["cpu_seconds"], limits["open_files"],
            max(limits["data_bytes"], limits["temp_bytes"]), _STACK_BYTES, 0, 0, _SIGNALS_PENDING,
            limits["threads"] + 1 if "user" in self._layers else self._most_processes,
        )  # fmt: skip
        for (limit, hard), value in zip(self._hard_limits, values, strict=True):
            lower = value if hard == _INFINITY else min(value, hard)
            steps.limit(limit, lower, lower)


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _use_temp(folder: str) -> None:
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # chosen again, from TMPDIR


def _for_process(program: bytes, process_id: int) -> bytes:
    return program.replace(struct.pack("=I", _ANY_PROCESS), struct.pack("=I", process_id))
