"""Lock-down of a fresh fork: the order of steps and Landlock; nothing that could precede the fork."""

import ctypes
import errno
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from toolfold_guest.jail import file_tree, kernel_calls
from toolfold_guest.jail import kernel_calls as jail_kernel
from toolfold_guest.jail.file_tree import DATA, TEMP
from toolfold_guest.jail.kernel_calls import Planned, SyscallList, call
from toolfold_guest.jail.syscalls import Machine

USER_INSIDE: Final = 1000
SOCKET_FD: Final = 3
"""Where a fork finds its socket to the host."""
DATA_FD: Final = jail_kernel.PROC_FD
"""The guest's open data folder, until it has been handed to the host; takes the place of /proc."""
DATA_MESSAGE: Final = b"D"
"""What it is handed over with."""

_STACK_BYTES: Final = 8 * 1024 * 1024
_SIGNALS_PENDING: Final = 128
_SHELL_ROOM_BYTES: Final = 1024 * 1024 * 1024
"""Address space of each process of a shell program beyond its memory, which is counted for all of them: a `python3`
that loads pandas maps far more than it uses."""
_SHELL_FILES: Final = 256
"""Of the supervisor, in the temporary folder: pipes, arguments and replies."""
# The builder of the jail has set RLIMIT_CORE for all.
_LIMITS: Final = (
    resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_STACK,
    resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_SIGPENDING, resource.RLIMIT_NPROC,
)  # fmt: skip
_NPROC, _INFINITY = resource.RLIMIT_NPROC, resource.RLIM_INFINITY
_ZYGOTE_OOM_SCORE, _GUEST_OOM_SCORE = 500, 1000
# Stands for the guest's process id in a filter made before the id is known.
_ANY_PROCESS: Final = 0x7E571D01

ForkPlan = tuple[Planned, Planned]
"""What a fresh fork does before anything else, and what it does before a program is let in."""


class Lockdown:
    """What the zygote can prepare for all its guests: a guest takes the steps of a `plan`."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._layers = frozenset(order["layers"])
        self.has_tree = "mount" in self._layers
        self._is_shell: bool = order["profile"] == "shell"
        self._has_own_ids = "pid" in self._layers
        self._namespaces = 0
        # In one `unshare`: the user namespace gives the right to open the others.
        for layer, flag in (
            ("user", kernel_calls.NEWUSER),
            ("mount", kernel_calls.NEWNS),
            ("ipc", kernel_calls.NEWIPC),
        ):
            self._namespaces |= flag if layer in self._layers else 0
        self.first_free_fd = DATA_FD + 1
        if "landlock" in self._layers:
            self._prepare_landlock(order["readable_folders"], order["readable_files"], order["listed_folders"])
        if "seccomp" in self._layers:
            assert kernel_calls.MACHINE is not None
            # Signals may go to the guest alone: number 1 in a namespace of its own, else known only after the fork.
            process = 1 if self._has_own_ids else _ANY_PROCESS
            self._filter = compile_guest(
                kernel_calls.MACHINE, process, attributes=self.has_tree, is_shell=self._is_shell
            )
            self._loadable = SeccompFilter(self._filter)
        self._user, self._group = os.getuid(), os.getgid()
        self._hard_limits = [(limit, resource.getrlimit(limit)[1]) for limit in _LIMITS]
        hard = resource.getrlimit(_NPROC)[1]
        most_processes: int = order["most_processes"]
        self._most_processes = most_processes if hard == _INFINITY else min(most_processes, hard)
        self._process_limit = (self._most_processes, hard)

    def confine_zygote(self) -> None:
        """The part of the lock-down that guests inherit: what they would all pay for, done once."""
        # Rather the zygote than the host, and rather a guest than its zygote.
        jail_kernel.offer_to_oom_killer(_ZYGOTE_OOM_SCORE)
        # Landlock and seccomp of an unprivileged process need it; and no set-uid file can give anything back.
        kernel_calls.no_new_privileges()
        # With a user namespace the rights are those inside of it, and the guest gives them up itself.
        if "caps" in self._layers and "user" not in self._layers:
            kernel_calls.drop_bounding_set()
            kernel_calls.drop_capabilities()
        if "seccomp" in self._layers:
            assert kernel_calls.MACHINE is not None
            # A filter can only be narrowed: what no guest ever needs is closed for the zygote too.
            load_filter(compile_base(kernel_calls.MACHINE, is_shell=self._is_shell))

    def plan(self, limits: Mapping[str, Any], vm_bytes: int, folder: str) -> ForkPlan:
        """For a guest that is to be forked with its socket at `SOCKET_FD`; in a tree, good for every such guest."""
        # Written down in the zygote, whose descriptors the fork begins with.
        open_fds = [fd for fd in range(self.first_free_fd) if _is_open(fd)]
        separate = SyscallList(open_fds)
        # The sockets of siblings end here.
        separate.close_from(self.first_free_fd)
        separate.unblock_signals()
        self._separate(separate, limits, folder)
        # Before the limits: the kernel counts descriptors in flight per user, over all guests, and
        # compares with the limit of who sends. A guest that hoards them must not stop the others.
        separate.hand_over(DATA_FD, by=SOCKET_FD, text=DATA_MESSAGE)
        separate.close(DATA_FD)
        if self._is_shell:
            separate.enter_cgroup(by=SOCKET_FD)
        seal = SyscallList(separate.open_fds)
        self._seal(seal, limits, vm_bytes, folder)
        return separate.planned(), seal.planned()

    def adapt(self, folder: str) -> None:
        """What has no steps: where a guest has no tree, the way to its temporary folder."""
        if not self.has_tree:
            _use_temp(self._folders_of(folder)[0])

    def seal_with_own_id(self) -> None:
        """The rest of the lock-down where a guest's process id is known to it alone."""
        if "seccomp" in self._layers and not self._has_own_ids:
            SeccompFilter(_for_process(self._filter, os.getpid())).load()

    def _separate(self, steps: SyscallList, limits: Mapping[str, Any], folder: str) -> None:
        """Own namespaces and files; afterwards 1 and 2 are a file and `DATA_FD` is the data folder."""
        steps.write(jail_kernel.OOM_SCORE, b"%d" % _GUEST_OOM_SCORE, folder=jail_kernel.PROC_FD, must=False)
        # An open file of the zygote's would be shared: its flags and locks would tell the next guest what this one did.
        steps.close(0)
        steps.open("/dev/null", os.O_RDONLY)
        if self._is_shell:
            # Else `kill 0` and priorities of "its group" would reach the zygote and all its guests.
            steps.add("setpgid", 0, 0)
        if self._is_shell and self.has_tree:
            file_tree.plan_proc(steps)
        if self._namespaces & kernel_calls.NEWUSER:
            # The kernel keeps it as what all users of such namespaces may have together; the zygote may have more.
            steps.limit(_NPROC, *self._process_limit)
        if self._namespaces:
            steps.add("unshare", self._namespaces)
        if self._namespaces & kernel_calls.NEWUSER:
            for path, text in jail_kernel.id_maps(self._user, self._group, inside=USER_INSIDE):
                steps.write(path, text, folder=jail_kernel.PROC_FD)
        # After the mount namespace: these mounts are the guest's own and end with it.
        temp, data = self._folders_of(folder)
        if self.has_tree:
            files, may_execute = limits["data_files"], self._is_shell
            own = files + (_SHELL_FILES if self._is_shell else 0)
            file_tree.plan_temp(steps, temp, size_bytes=limits["temp_bytes"], files=own, may_execute=may_execute)
            file_tree.plan_root(steps, size_bytes=limits["data_bytes"], files=files, may_execute=may_execute)
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
        folder_fd = steps.open(data, os.O_RDONLY | os.O_DIRECTORY)
        steps.duplicate(folder_fd, DATA_FD)
        steps.close(folder_fd)

    def _seal(self, steps: SyscallList, limits: Mapping[str, Any], vm_bytes: int, folder: str) -> None:
        """Give up every right that a program must not have. There is no way back."""
        if "landlock" in self._layers:
            # Before the limits: the zygote has more files open for it than a guest may open.
            # In a tree all of the guest's root: what lies below it and is not the guest's is mounted read-only.
            self._ruleset.plan(steps, ("/",) if self.has_tree else self._folders_of(folder))
        # The data folder, which the host has by now, and Landlock's folders: only the guest's own socket is left.
        steps.close_from(DATA_FD)
        if "rlimits" in self._layers:
            self._limit(steps, limits, vm_bytes)
        if "caps" in self._layers:
            # After the mounts, which needed them; before the filter, which forbids the calls that do this.
            steps.try_to("prctl", kernel_calls.PR_SET_SECUREBITS, kernel_calls.SECUREBITS)
            steps.add("capset", kernel_calls.CAPABILITY_HEADER, kernel_calls.NO_CAPABILITIES)
            # No process of the same user can look into this one. Its own /proc is root's from then on.
            steps.add("prctl", kernel_calls.PR_SET_DUMPABLE, 0)
        # A change of credentials clears it, so it comes after the last of them.
        steps.add("prctl", kernel_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
        if "seccomp" in self._layers and self._has_own_ids:
            # Last of all: everything above would be refused under it.
            self._loadable.plan(steps)

    def _prepare_landlock(self, readable: Sequence[str], files: Sequence[str], listed: Sequence[str]) -> None:
        # Opened before anything else, so that a guest keeps these and closes all above them.
        devices = ["/dev"] if self.has_tree else [f"/dev/{name}" for name in file_tree.DEVICES if name != "zero"]
        folder_fds = [_open(path) for path in readable]
        # Who maps that device for writing has memory that no limit counts; a tree has another in its place.
        file_fds = [_open(path) for path in (*files, "/dev/zero")]
        listed_fds = [_open(path) for path in listed]
        device_fds = [_open(path) for path in devices if os.path.exists(path)]
        self.first_free_fd = max(*folder_fds, *file_fds, *listed_fds, *device_fds) + 1
        self._ruleset = Ruleset(version(), may_execute=self._is_shell)
        self._ruleset.allow_read(folder_fds)
        self._ruleset.allow_read(file_fds, files=True)
        self._ruleset.allow_list(listed_fds)
        self._ruleset.allow_devices(device_fds)

    def _folders_of(self, folder: str) -> tuple[str, str]:
        return (TEMP, DATA) if self.has_tree else (f"{folder}/temp", f"{folder}/data")

    def _limit(self, steps: SyscallList, limits: Mapping[str, Any], vm_bytes: int) -> None:
        # In the order of `_LIMITS`. The first process of a pid namespace ignores SIGXCPU; the hard limit is a SIGKILL.
        # Processes are counted per user: only in a user namespace of its own is that the guest's alone. Elsewhere the
        # limit is that of all guests together, below the zygote's, so that it can always fork.
        room = _SHELL_ROOM_BYTES if self._is_shell else 0
        values = (
            vm_bytes + limits["memory_bytes"] + room, limits["cpu_seconds"], limits["open_files"],
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


# ----------------------------------------------------------------------------------------------------
# Landlock: the file tree, TCP and signals, taken from a process by itself and for good.

_VERSION_FLAG: Final = 1
_RULE_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << bit for bit in range(6))
_MAKE_CHAR, _MAKE_DIR, _MAKE_REG, _MAKE_SOCK, _MAKE_FIFO, _MAKE_BLOCK, _MAKE_SYM = (1 << bit for bit in range(6, 13))
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

_READ: Final = _READ_FILE | _READ_DIR
# All that a program does in a folder of its own: no devices, no sockets, no exec.
_CHANGE: Final = _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_FIFO | _MAKE_SYM | _REFER
_READ_WRITE: Final = _READ | _WRITE_FILE | _CHANGE | _TRUNCATE
_DEVICE: Final = _READ_FILE | _WRITE_FILE | _TRUNCATE
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

# Rights that each version of the interface knows, beyond those of the one before.
_FS_BITS_BY_VERSION: Final = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_NET_BIND_AND_CONNECT: Final = 3
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 3


def version() -> int:
    """The newest interface that this kernel and we both know; raises `JailError` if it has none."""
    try:
        newest = kernel_calls.call("landlock_create_ruleset", None, ctypes.c_size_t(0), _VERSION_FLAG)
    except OSError as error:
        raise kernel_calls.JailError(
            f"landlock is not available ({error.strerror}); boot Linux 5.13 or later with 'landlock' in its lsm= list"
        ) from None
    return min(newest, 6)


class Ruleset:
    """What stays allowed. Put together before the fork; a guest then only hands it to the kernel."""

    def __init__(self, interface: int, *, may_execute: bool) -> None:
        self._execute = _EXECUTE if may_execute else 0
        # Whatever is handled is refused unless a rule allows it, so every right that this kernel knows is handled.
        self._handled = (1 << _FS_BITS_BY_VERSION[min(interface, 5)]) - 1
        net = _NET_BIND_AND_CONNECT if interface >= 4 else 0
        scoped = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS if interface >= 6 else 0
        # An older kernel refuses fields it does not know, so they are left out, not zero.
        fields = 3 if interface >= 6 else 2 if interface >= 4 else 1
        self._attributes = struct.pack("=QQQ", self._handled, net, scoped)[: 8 * fields]
        self._rules: list[bytes] = []

    def allow_read(self, fds: Iterable[int], *, files: bool = False) -> None:
        self._rules += [self._rule(fd, (_READ & _OF_A_FILE if files else _READ) | self._execute) for fd in fds]

    def allow_list(self, fds: Iterable[int]) -> None:
        """The names in these directories and in those below them, and nothing of what is in the files."""
        self._rules += [self._rule(fd, _READ_DIR) for fd in fds]

    def allow_devices(self, fds: Iterable[int]) -> None:
        self._rules += [self._rule(fd, _DEVICE) for fd in fds]

    def plan(self, steps: SyscallList, writable: Iterable[str]) -> None:
        """Have the calling thread bound to it, and to `writable` folders. Needs `no_new_privileges`."""
        # A ruleset of its own for each guest: its writable folders differ.
        ruleset = steps.free()
        steps.add("landlock_create_ruleset", self._attributes, len(self._attributes), 0, result=ruleset)
        steps.keep(ruleset)
        for rule in self._rules:
            steps.add("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
        for path in writable:
            fd = steps.open(path, os.O_PATH)
            steps.add("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, self._rule(fd, _READ_WRITE | self._execute), 0)
            steps.close(fd)
        # Only this thread; a guest has no other yet, and those to come inherit it.
        steps.add("landlock_restrict_self", ruleset, 0)
        steps.close(ruleset)

    def _rule(self, fd: int, rights: int) -> bytes:
        return struct.pack("=Qi", rights & self._handled, fd)


# ----------------------------------------------------------------------------------------------------
# The system-call filters: an allow-list with default EPERM in the zygote, a small one per guest.
#
# Only loads, comparisons and returns: the kernel can then see at load time which calls are always
# allowed, and does not run the filters for those at all. The list is a binary search over ranges.

_SET_MODE_FILTER: Final = 1
_LOAD, _AND, _JUMP, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x54, 0x05, 0x15, 0x35, 0x45, 0x06
_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_ERRNO: Final = 0x00050000
_DENY: Final = _ERRNO | errno.EPERM
_NUMBER_OFFSET: Final = 0
_ARCH_OFFSET: Final = 4
_X32_BIT: Final = 0x40000000

_CLONE_FILES, _CLONE_THREAD, _CLOSE_RANGE_UNSHARE = 0x00000400, 0x00010000, 2
_CLONE_NAMESPACES: Final = 0x7E020080
_ARCH_SET_FS: Final = 0x1002
_FILE_KIND, _FIFO = 0o170000, 0o010000
_SHARED_ANONYMOUS: Final = 0x21
_AF_UNIX: Final = 1
# A pair of datagram sockets could name any socket of the host in `sendto`; streams cannot.
_STREAMS: Final = (0x1, 0x801, 0x80001, 0x80801)
# isatty, bytes readable, non-blocking, close-on-exec on and off, window size
_IOCTLS: Final = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451, 0x5413)
# what only reads the process's own state, and its names: of the thread, of a mapping
_PRCTLS: Final = (2, 3, 15, 16, 21, 23, 27, 39, 0x53564D41)
# copies of descriptors, their flags, what is locked, the size of a pipe, seals. Not there, among others: signals on
# input and output, leases, larger pipes (memory that nobody counts), hints (which stay with the host's file).
_FCNTLS: Final = (0, 1, 2, 3, 4, 5, 1027, 1030, 1032, 1034, 1035, 1037)
# Locks of a process. A guest is alone with the files that it may write, so it would never wait for one; granted
# without taking them, they work for its databases and do not touch the host's files, which it may read.
_PROCESS_LOCKS: Final = (6, 7)
# Locks of an open file. These do exclude each other within a process, so they are refused instead.
_FILE_LOCKS: Final = (36, 37, 38)
# The kernel's code for it in unix sockets has let programs out of other sandboxes.
_MSG_OOB: Final = 1
_SOL_SOCKET: Final = 1
# Kind and state of the socket itself, its buffers and timeouts. Not there: everything about the process at its other
# end (a descriptor of it, credentials, groups, security label), and counters that the machine shares.
_SOCKET_OPTIONS: Final = (3, 4, 39, 38, 7, 8, 20, 21, 30)
# Wait, wake, requeue, wake-op and the two with bit sets: what the C library's locks are made of.
_FUTEXES: Final = (0, 1, 9, 10, 5, 4, 3)
# private, clock of the day
_FUTEX_FLAGS: Final = 0x180
# What allocators and the C library say of their own memory. Not there: merging equal pages and paging out, which
# show by their timing what other processes have in memory; holes in files; broken hardware.
_MEMORY_ADVICE: Final = (4, 14, 8, 15, 0, 1, 2, 3, 10, 11, 16, 17, 18, 19, 22, 23, 102, 103)
# All but "will not be needed", which takes a file that others read out of memory.
_FILE_ADVICE: Final = (0, 1, 2, 3, 5)
# Synchronously, and at the end. Not there: "only if it is in memory", which says what others have read; polling;
# untorn; "do not leave it in memory".
_VECTOR_FLAGS: Final = 0x16
_XATTRS: Final = ("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr")


class Instruction(NamedTuple):
    """One BPF instruction."""

    code: int
    if_true: int
    if_false: int
    operand: int


def compile_base(machine: Machine, *, is_shell: bool = False) -> bytes:
    """For the zygote, inherited by its guests: what they may call, and what locks them down."""
    tables = [machine.allowed, machine.attributes, machine.checked, machine.setup, machine.shell if is_shell else {}]
    numbers = {number for table in tables for number in table.values()}
    program = [_load(_ARCH_OFFSET), *_unless(_EQUAL, machine.audit_arch, _KILL), _load(_NUMBER_OFFSET)]
    if machine.has_x32:
        program += [Instruction(_AT_LEAST, 0, 1, _X32_BIT), _return(_KILL)]
    rules = {machine.checked[name]: rule for name, rule in _base_rules().items()}
    return _assemble([*program, *_search(_ranges(numbers, rules))])


def compile_guest(machine: Machine, process_id: int, *, attributes: bool, is_shell: bool = False) -> bytes:
    """On top of the base, for a guest whose own id is `process_id`: no more setup, arguments checked.

    Small, because a guest pays for loading it; `attributes` leaves it modes and times of files.
    """
    refused = {*machine.setup.values(), *(() if attributes else machine.attributes.values())}
    rules, numbers = _guest_rules(process_id), machine.checked
    if is_shell:
        refused -= set(machine.shell.values())
        rules, numbers = rules | _shell_rules(), numbers | machine.shell
    program = [_load(_NUMBER_OFFSET)]
    for name, rule in rules.items():
        if name in numbers:
            program += [Instruction(_EQUAL, 0, len(rule), numbers[name]), *rule]
    return _assemble([*program, *_one_of(tuple(refused), then=_DENY, otherwise=_ALLOW)])


class SeccompFilter:
    """A compiled filter as the kernel takes it; made before the fork, so that a guest only hands it over."""

    def __init__(self, program: bytes) -> None:
        self._code = ctypes.create_string_buffer(program, len(program))
        self._head = ctypes.create_string_buffer(struct.pack("@HP", len(program) // 8, ctypes.addressof(self._code)))

    def load(self) -> None:
        call("seccomp", _SET_MODE_FILTER, 0, self._head)

    def plan(self, steps: SyscallList) -> None:
        steps.add("seccomp", _SET_MODE_FILTER, 0, self._head)


def load_filter(program: bytes) -> None:
    SeccompFilter(program).load()


def _base_rules() -> dict[str, list[Instruction]]:
    """What the zygote can do without as well: such a rule costs a guest nothing to load."""
    of_vectors = [_argument(5), *_if(_HAS_BITS, _VECTOR_FLAGS ^ 0xFFFFFFFF, _ERRNO | errno.EOPNOTSUPP), _return(_ALLOW)]
    kind_of_mapping = [_argument(3), Instruction(_AND, 0, 0, _SHARED_ANONYMOUS)]
    # Each error is the kernel's own for what it does not have: who asks for it has a way without.
    return {
        # Such memory stays when all but a page of it is unmapped, and then no limit counts it.
        "mmap": [*kind_of_mapping, *_if(_EQUAL, _SHARED_ANONYMOUS, _DENY), _return(_ALLOW)],
        # Locks that lend their priority have been a way into the kernel time and again.
        "futex": [
            _argument(1),
            Instruction(_AND, 0, 0, _FUTEX_FLAGS ^ 0xFFFFFFFF),
            *_one_of(_FUTEXES, then=_ALLOW, otherwise=_ERRNO | errno.ENOSYS),
        ],
        "madvise": [_argument(2), *_one_of(_MEMORY_ADVICE, then=_ALLOW, otherwise=_ERRNO | errno.EINVAL)],
        "getsockopt": [
            _argument(1),
            *_unless(_EQUAL, _SOL_SOCKET, _ERRNO | errno.ENOPROTOOPT),
            _argument(2),
            *_one_of(_SOCKET_OPTIONS, then=_ALLOW, otherwise=_ERRNO | errno.ENOPROTOOPT),
        ],
        "fadvise64": [_argument(3), *_one_of(_FILE_ADVICE, then=_ALLOW, otherwise=_DENY)],
        "preadv2": of_vectors,
        "pwritev2": of_vectors,
        # With any other error `cp -p`, `mv` and `sed -i` take the mode of a file for lost.
        **{name: [_return(_ERRNO | errno.EOPNOTSUPP)] for name in _XATTRS},
    }


def _guest_rules(process_id: int) -> dict[str, list[Instruction]]:
    allow = _return(_ALLOW)
    to_self = [_argument(0), *_unless(_EQUAL, process_id, _DENY), allow]
    return {
        # First, because a guest uses it most.
        "sendto": [_argument(3), *_if(_HAS_BITS, _MSG_OOB, _DENY), allow],
        # Its flags lie in memory, which a filter cannot read; without it the C library uses `clone`.
        "clone3": [_return(_ERRNO | errno.ENOSYS)],
        "clone": [
            _argument(0),
            *_if(_HAS_BITS, _CLONE_NAMESPACES, _DENY),
            *_unless(_HAS_BITS, _CLONE_THREAD, _DENY),
            allow,
        ],
        # Terminals and devices offer far more than a program needs; one that is not there says so with ENOTTY.
        "ioctl": [_argument(1), *_one_of(_IOCTLS, then=_ALLOW, otherwise=_ERRNO | errno.ENOTTY)],
        "prctl": [_argument(0), *_one_of(_PRCTLS, then=_ALLOW, otherwise=_DENY)],
        "fcntl": [
            _argument(1),
            *_if_one_of(_PROCESS_LOCKS, _ERRNO),  # error 0 is success
            *_if_one_of(_FILE_LOCKS, _ERRNO | errno.ENOLCK),
            *_one_of(_FCNTLS, then=_ALLOW, otherwise=_DENY),
        ],
        # A lock on a file that all guests share would tell one program about another.
        "flock": [_return(_ERRNO | errno.ENOLCK)],
        # Within the process only; `_STREAMS` says why no datagrams.
        "socketpair": [
            _argument(0),
            *_unless(_EQUAL, _AF_UNIX, _DENY),
            _argument(1),
            *_one_of(_STREAMS, then=_ALLOW, otherwise=_DENY),
        ],
        "kill": to_self,
        "tgkill": to_self,
        "tkill": to_self,
        # Its own limits, and only to read them: no new value may be given.
        "prlimit64": [
            _argument(0),
            Instruction(_EQUAL, 2, 0, 0),
            *_unless(_EQUAL, process_id, _DENY),
            _argument(2),
            *_unless(_EQUAL, 0, _DENY),
            _argument(2, high=True),
            *_unless(_EQUAL, 0, _DENY),
            allow,
        ],
    }


def _shell_rules() -> dict[str, list[Instruction]]:
    """In place of those of a guest: processes may be started, limited and stopped, all in one pid namespace."""
    allow = _return(_ALLOW)
    fifo = [Instruction(_AND, 0, 0, _FILE_KIND), *_unless(_EQUAL, _FIFO, _DENY), allow]
    return {
        # A thread with files of its own is refused: the host counts them once for each process.
        "clone": [
            _argument(0),
            *_if(_HAS_BITS, _CLONE_NAMESPACES, _DENY),
            *_unless(_HAS_BITS, _CLONE_THREAD, _ALLOW),
            *_unless(_HAS_BITS, _CLONE_FILES, _DENY),
            allow,
        ],
        "close_range": [_argument(2), *_if(_HAS_BITS, _CLOSE_RANGE_UNSHARE, _DENY), allow],
        **{name: [allow] for name in ("kill", "tgkill", "tkill")},
        # But for the limit of dumps, which `launch` explains: it seems to be set, and stays.
        "setrlimit": [_argument(0), *_if(_EQUAL, resource.RLIMIT_CORE, _ERRNO), allow],
        "prlimit64": [
            _argument(1),
            *_unless(_EQUAL, resource.RLIMIT_CORE, _ALLOW),
            _argument(2),
            *_unless(_EQUAL, 0, _ERRNO),
            _argument(2, high=True),
            *_unless(_EQUAL, 0, _ERRNO),
            allow,
        ],
        # Of its own thread: where its local variables lie. All else there has a default that programs can live with.
        "arch_prctl": [_argument(0), *_one_of((_ARCH_SET_FS,), then=_ALLOW, otherwise=_ERRNO | errno.EINVAL)],
        "mknod": [_argument(1), *fifo],
        "mknodat": [_argument(2), *fifo],
        "execveat": [_return(_ERRNO | errno.ENOSYS)],
        # The kernel counts its watches for all programs of a user together; Python's loops do without.
        **{name: [_return(_ERRNO | errno.ENOSYS)] for name in ("epoll_create", "epoll_create1")},
    }


def _assemble(program: list[Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _load(offset: int) -> Instruction:
    return Instruction(_LOAD, 0, 0, offset)


def _argument(index: int, *, high: bool = False) -> Instruction:
    return _load(16 + 8 * index + (4 if high else 0))


def _return(action: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, action)


def _unless(test: int, operand: int, action: int) -> list[Instruction]:
    return [Instruction(test, 1, 0, operand), _return(action)]


def _if(test: int, operand: int, action: int) -> list[Instruction]:
    return [Instruction(test, 0, 1, operand), _return(action)]


def _if_one_of(values: tuple[int, ...], action: int) -> list[Instruction]:
    return [step for value in values for step in _if(_EQUAL, value, action)]


def _one_of(values: tuple[int, ...], *, then: int, otherwise: int) -> list[Instruction]:
    tests = [Instruction(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [*tests, _return(otherwise), _return(then)]


def _ranges(numbers: set[int], rules: dict[int, list[Instruction]]) -> list[tuple[int, list[Instruction]]]:
    """`(first, what is done from there on)` in rising order, covering every number."""

    def answer(number: int) -> list[Instruction]:
        return rules.get(number) or [_return(_ALLOW if number in numbers else _DENY)]

    edges = [0, *(number for number in range(1, max(numbers) + 2) if answer(number) != answer(number - 1))]
    return [(edge, answer(edge)) for edge in edges]


def _search(edges: list[tuple[int, list[Instruction]]]) -> list[Instruction]:
    if len(edges) == 1:
        return edges[0][1]
    middle = len(edges) // 2
    lower, upper = _search(edges[:middle]), _search(edges[middle:])
    # A jump in a filter has eight bits.
    if len(lower) <= 255:
        return [Instruction(_AT_LEAST, len(lower), 0, edges[middle][0]), *lower, *upper]
    far = Instruction(_JUMP, 0, 0, len(lower))
    return [Instruction(_AT_LEAST, 0, 1, edges[middle][0]), far, *lower, *upper]
